// SPDX-License-Identifier: Apache-2.0
// Content-addressed files: their names are their digests. They are written whole and durably, never
// changed, and checked by their readers.
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
// The prefix of files that are being written. Files that a crash left may be removed.
inline constexpr absl::string_view kUnfinished = ".writing-";

// Whether it is "sha256:" and 64 hex digits in lower case.
bool IsDigest(absl::string_view digest);
std::string DigestOf(absl::string_view bytes);
// "sha256-<hex>" and a suffix.
std::string FileNameOf(absl::string_view digest, absl::string_view suffix);

// Writes a file atomically: at any time the old or the new one is there, whole. The umask does not
// change `mode`. RESOURCE_EXHAUSTED (the disk is full), PERMISSION_DENIED, UNAVAILABLE.
absl::Status WriteWhole(const std::string& path, absl::string_view bytes, mode_t mode);

// Up to `most` bytes from an offset on; nullopt if it is no regular file that can be read.
std::optional<std::string> ReadPiece(const std::string& path, size_t most, uint64_t offset = 0);

}  // namespace tune::server
