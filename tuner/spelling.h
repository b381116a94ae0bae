// SPDX-License-Identifier: Apache-2.0
// Other spellings of devices, as users and frameworks write them. The command line, the daemon and
// the C library take these; records and messages have the one name.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune {

// The id or family of a device in letters of any case: "cpu" for "CPU", "cuda:0" for "CUDA:0".
// Other text, such as a device's name, is returned as it is.
std::string DeviceIdOf(absl::string_view text);

}  // namespace tune
