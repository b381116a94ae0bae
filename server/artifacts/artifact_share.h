// SPDX-License-Identifier: Apache-2.0
// The share of an owner in the bound for all artifacts (artifact_folder.h), so that no submitter
// fills it alone. The store knows how much of it the artifacts of an owner's records take.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "db/retention.h"
#include "server/artifacts/artifact_folder.h"

namespace tune::server {

struct ArtifactShare {
  std::string owner;
  int64_t bytes_max = 0;
};

// Puts an artifact of a record that an owner's sweep found, as ArtifactFolder::Put does. Also
// RESOURCE_EXHAUSTED if the owner's artifacts would then have more than their share.
absl::StatusOr<std::string> PutWithinShare(const std::string& text, const ArtifactShare& share,
                                           ArtifactFolder& folder, db::Retention& store);

}  // namespace tune::server
