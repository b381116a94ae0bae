// SPDX-License-Identifier: Apache-2.0
// A parser as a target of libFuzzer: TUNE_FUZZ_PARSER names it. Built with TUNE_FUZZ=ON by clang;
// tools/fuzz.sh runs them all.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/parsers.h"

namespace {

const tune::Parser& Chosen() {
  const char* name = std::getenv("TUNE_FUZZ_PARSER");
  for (const tune::Parser& parser : tune::Parsers()) {
    if (name != nullptr && parser.name == absl::string_view(name)) return parser;
  }
  std::fprintf(stderr, "TUNE_FUZZ_PARSER must be one of:");
  for (const tune::Parser& parser : tune::Parsers()) std::fprintf(stderr, " %s", parser.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const tune::Parser& parser = Chosen();
  parser.parse({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
