// SPDX-License-Identifier: Apache-2.0
// The names of data types. Users and frameworks have several for one type; the command line, the
// daemon, the C library and records compare types by the name that this function gives.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tune {

// The spec's name of a data type that is spelt as in C++, NumPy or PyTorch, in letters of any case:
// "f32" for "float32", "float", "torch.float32", "fp32" or "F32". Other text is returned as it is.
std::string SpecDType(absl::string_view text);

}  // namespace tune
