// SPDX-License-Identifier: Apache-2.0
// An artifact as a file: a line of JSON that says how to launch it, then its binaries. A host
// without a compiler runs a record's config with it. docs/artifacts.md describes it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/plan.h"
#include "tuner/trial_key.h"

namespace tune::server {

inline constexpr size_t kArtifactBytesMax = size_t{64} << 20;  // of a file

// Makes the file of an artifact. Equal programs, keys and configs give equal bytes.
// INVALID_ARGUMENT: a bundle is cut.
absl::StatusOr<std::string> ArtifactText(const TrialKey& key, const std::string& kernel_name,
                                         const Config& config, const Program& program);

// INVALID_ARGUMENT: the file is no artifact of our version, is cut, or is not what `digest` names.
absl::Status CheckArtifactText(absl::string_view text, const std::string& digest);

}  // namespace tune::server
