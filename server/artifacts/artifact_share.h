// SPDX-License-Identifier: Apache-2.0
// Artifacts are kept within a bound for all (artifact_folder.h). So that no submitter fills it
// alone, the artifacts of each owner's records have a share of it, and the store knows how much of
// it they take.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/artifacts/artifact_folder.h"

namespace tune::server {

struct ArtifactShare {
  std::string owner;
  int64_t bytes_max = 0;
};

// Puts an artifact of a record that an owner's sweep found, as ArtifactFolder::Put does. Also
// RESOURCE_EXHAUSTED if the owner's artifacts would then have more than their share.
absl::StatusOr<std::string> PutWithinShare(const std::string& text, const ArtifactShare& share,
                                           ArtifactFolder& folder, db::Store& store);

}  // namespace tune::server
