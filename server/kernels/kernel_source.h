// SPDX-License-Identifier: Apache-2.0
// Kernels that come as text, and names that clients give.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/kernels/catalogue.h"
#include "tune/v1/kernel.pb.h"

namespace tune::server {

// The limit for all files of a submitted kernel together: 4 MiB of text, and the contents of
// buffers.
inline constexpr size_t kSourceBytesMax = 20 << 20;
inline constexpr int kSourceFilesMax = 256;

// Parses a submitted kernel. `name_space` is its sender's (NameSpaceOf), and becomes the kernel's
// origin. INVALID_ARGUMENT has the file, line and column.
absl::StatusOr<NamedKernel> ParseKernelSource(
    const v1::KernelSource& source, const std::optional<std::string>& name_space = std::nullopt);

// INVALID_ARGUMENT: the text is longer than 128 characters, or has characters that steer a
// terminal. `what` begins the message: "the device".
absl::Status CheckName(const std::string& what, const std::string& text);

}  // namespace tune::server
