// SPDX-License-Identifier: Apache-2.0
// Every parser of bytes that others send or leave behind, each as a function of such bytes. The
// bytes come from libFuzzer (parsers_entry.cc) or from seeds that a test changes (parsers_test.cc).
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tune {

struct Parser {
  const char* name;  // as its folder in seeds/ and its dictionary, "spec"
  // Parses, and uses what it got. It ends the process if a result contradicts itself; that the
  // bytes are refused is in order.
  void (*parse)(absl::string_view bytes);
};

absl::Span<const Parser> Parsers();

}  // namespace tune
