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

constexpr size_t kAnswersMax = 4096;  // that are kept

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

absl::StatusOr<std::shared_ptr<const Answer>> JobClient::Best(const Question& question) const {
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const bool owned = lock.owns_lock();
    const auto known = owned ? answers_.find(question) : answers_.end();
    if (owned && known != answers_.end()) return known->second;
  }
  auto answer = std::make_shared<Answer>();
  if (found_.snapshot != nullptr) {
    ASSIGN_OR_RETURN(*answer, Resolve(*found_.snapshot, found_.source, question));
  } else {
    answer->kernel = question.kernel;
    answer->source = found_.source;
    answer->reason = absl::StrCat("there is no snapshot: ", absl::StrJoin(found_.notes, "; "));
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) {
    if (answers_.size() >= kAnswersMax) answers_.clear();
    answers_[question] = answer;
  }
  return answer;
}

absl::StatusOr<std::string> JobClient::Artifact(const std::string& digest) const {
  return FindArtifact(digest, found_.folder, daemon_);
}

}  // namespace tune::library
