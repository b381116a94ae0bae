// SPDX-License-Identifier: Apache-2.0
// The same calls as a target of libFuzzer, whose choices are guided by what code they reach. Built
// with TUNE_FUZZ=ON by clang.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/server/fuzz/call_fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static auto* const fuzzer = new tune::server::CallFuzzer();  // until the process ends
  tune::server::Choices choices(bytes, size);
  const std::string wrong = fuzzer->Run(choices);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
