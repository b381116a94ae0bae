// SPDX-License-Identifier: Apache-2.0
// Text that cannot steer a terminal. Compile logs, names and messages are written by whoever wrote
// the kernel; control characters among them are shown as what they are.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune {

// The text with "\x1b" in place of ESC, and alike for every control character but tab and line
// feed, for what turns the direction of text or ends a line unseen ("\u202e"), and for bytes that
// are no UTF-8 ("\xff"). A carriage return before a line feed is left out. Twice is the same as
// once.
std::string Printable(absl::string_view text);

// The same, piece by piece: what may be the beginning of a character waits for its rest.
class PrintableStream {
 public:
  std::string Add(absl::string_view piece);
  // What still waits.
  std::string Finish();

 private:
  std::string waiting_;
};

}  // namespace tune
