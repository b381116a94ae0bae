// SPDX-License-Identifier: Apache-2.0
// Elements that a user sends along: a NumPy array (.npy) or bytes as they lie in memory. Internal
// to tuner/kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/problem.h"

namespace tune {

struct DataFile {
  DType dtype = DType::kF32;
  absl::string_view elements;  // of the file, little endian, slowest dimension first
};

// The file's elements, which must be of this type and shape; of a .npy, `or_wider` lets them be f32
// or f64 as well. INVALID_ARGUMENT: "keys.npy: its shape is (128, 4), not (64, 4)".
absl::StatusOr<DataFile> ReadDataFile(const std::string& name, absl::string_view bytes, DType dtype,
                                      const std::vector<int64_t>& shape, bool or_wider);

}  // namespace tune
