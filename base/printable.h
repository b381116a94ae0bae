// SPDX-License-Identifier: Apache-2.0
// Text that cannot steer a terminal. Compile logs, names and messages are written by the kernel's
// author; control characters in them are shown escaped.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune {

// Returns the text with "\x1b" in place of ESC, and alike for every control character but tab and
// line feed, for characters that turn the direction of text or end a line unseen ("\u202e"), and
// for bytes that are not UTF-8 ("\xff"). A carriage return before a line feed is left out.
// Idempotent.
std::string Printable(absl::string_view text);

// Printable() for text that arrives in pieces. Bytes that may begin a character wait for the rest.
class PrintableStream {
 public:
  std::string Add(absl::string_view piece);
  // Returns the bytes that still wait, escaped.
  std::string Finish();

 private:
  std::string waiting_;
};

}  // namespace tune
