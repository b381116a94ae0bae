// SPDX-License-Identifier: Apache-2.0
// Text of others, as protobuf takes it.
#pragma once

#include <string>

namespace tune::server {

// Protobuf refuses to parse a string that is not UTF-8, and compilers, drivers and kernels may say
// anything: each byte that is not part of a character becomes a '?'. A NUL becomes the two
// characters \0: where it is printed as a C string, what follows would be lost.
std::string Utf8(const std::string& text);

}  // namespace tune::server
