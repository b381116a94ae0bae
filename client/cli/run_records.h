// SPDX-License-Identifier: Apache-2.0
// The snapshot of `tunectl run`: found once, by libtune's rule, as the processes of the program
// would find it. What has to be fetched is in the node's cache then, where all of them read it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"

namespace tune::client {

struct RunRecords {
  std::string digest;              // empty: none was found
  std::string name;                // for TUNE_SNAPSHOT: the digest, or the file that was named
  std::vector<std::string> notes;  // why there is none, a sentence each
};

// An empty name is the newest, and it is no error if there is none. NOT_FOUND if `snapshot` names
// one that is not there, with what failed; INVALID_ARGUMENT if it cannot be a name.
absl::StatusOr<RunRecords> FindRunRecords(const Session& session, const std::string& snapshot);

}  // namespace tune::client
