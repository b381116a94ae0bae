// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune {

std::string Sha256(absl::string_view bytes);     // 32 bytes
std::string Sha256Hex(absl::string_view bytes);  // 64 digits, lower case

}  // namespace tune
