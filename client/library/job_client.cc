// SPDX-License-Identifier: Apache-2.0
#include "client/library/job_client.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/address.h"
#include "client/library/local_devices.h"
#include "client/library/node_folder.h"
#include "tuner/status_macros.h"

namespace tune::library {
namespace {

int WorldSize() {
  int size = 1;
  return absl::SimpleAtoi(Variable("WORLD_SIZE"), &size) ? size : 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobClient>> JobClient::Open(const OpenOptions& options) {
  const std::string wanted = options.snapshot.value_or(Variable("TUNE_SNAPSHOT"));
  ASSIGN_OR_RETURN(const Wish wish, Wish::Parse(wanted));
  if (!wish.pinned() && wanted != "latest" && WorldSize() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("this job has ", WorldSize(),
                     " ranks and names no snapshot, so they may read different ones; start it with "
                     "TUNE_SNAPSHOT=sha256:..., which `tunectl snapshot pin` prints, or say "
                     "TUNE_SNAPSHOT=latest if the ranks may differ"));
  }
  LocalDevices();  // what it finds once, it finds before anybody forks
  Daemon daemon{options.address.empty() ? client::DefaultAddress() : options.address,
                options.timeout};
  return std::unique_ptr<JobClient>(new JobClient(FindSnapshot(wish, daemon), daemon));
}

absl::StatusOr<Answer> JobClient::Best(const Question& question) const {
  if (found_.snapshot != nullptr) return Resolve(*found_.snapshot, found_.source, question);
  return Answer{.reason = absl::StrCat("there is no snapshot: ", absl::StrJoin(found_.notes, "; ")),
                .kernel = question.kernel,
                .source = found_.source};
}

absl::StatusOr<std::string> JobClient::Artifact(const std::string& digest) const {
  return FindArtifact(digest, found_.folder, daemon_);
}

}  // namespace tune::library
