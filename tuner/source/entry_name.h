// SPDX-License-Identifier: Apache-2.0
// How a kernel of a source is named: "softmax", "ops::softmax", "ops::softmax<128, float>".
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune {

// A C identifier.
bool IsPlainIdentifier(absl::string_view name);

// Identifiers with "::" between them.
bool IsQualifiedName(absl::string_view name);

// Is it one of the three? Arguments of a template are numbers, types and names, at most 256
// characters in all: nothing that could end the line or the expression they are put into.
bool IsEntryName(absl::string_view name);

// "softmax", of each of the three.
std::string BaseNameOf(absl::string_view entry);

// Does the identifier stand in the text, by itself?
bool HasWord(absl::string_view text, absl::string_view word);

}  // namespace tune
