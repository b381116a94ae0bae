// SPDX-License-Identifier: Apache-2.0
// Files that are named by what is in them: written whole and durably, never changed, checked by
// whoever reads them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tune::server {

inline constexpr absl::string_view kDigestPrefix = "sha256:";
// Names of files that are being written begin so; those that a crash left can go.
inline constexpr absl::string_view kUnfinished = ".writing-";

// "sha256:" and 64 hex digits in lower case?
bool IsDigest(absl::string_view digest);
std::string DigestOf(absl::string_view bytes);
// "sha256-<hex>" and a suffix.
std::string FileNameOf(absl::string_view digest, absl::string_view suffix);

// The old file or the new one is there at any time, whole; the mode is as said, whatever the umask.
// RESOURCE_EXHAUSTED (the disk is full), PERMISSION_DENIED, UNAVAILABLE.
absl::Status WriteWhole(const std::string& path, absl::string_view bytes, mode_t mode);

// Up to `most` bytes from an offset on; nothing if it is no regular file that can be read.
std::optional<std::string> ReadPiece(const std::string& path, size_t most, uint64_t offset = 0);

}  // namespace tune::server
