// SPDX-License-Identifier: Apache-2.0
// The JSON of messages, as --json prints them. docs/cli.md describes the form.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace tune::client {

enum class Layout { kOneLine, kIndented };

// Fields by their names in the .proto files, but for those that are unset, zero or empty. All
// numbers are plain numbers. A config is an object of its params, the dims of a problem an object
// of theirs. Only ASCII: every other character is escaped, so that nothing steers a terminal.
std::string JsonText(const google::protobuf::Message& message, Layout layout);

}  // namespace tune::client
