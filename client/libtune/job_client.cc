// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/job_client.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/libtune/environment.h"
#include "client/libtune/local_devices.h"

namespace tune::library {
namespace {

constexpr std::chrono::seconds kNewerTimeout(10);  // nobody waits for what is newer
constexpr std::chrono::seconds kRest(60);          // of a daemon that did not give an artifact

int WorldSize(const Environment& environment) {
  int size = 1;
  return absl::SimpleAtoi(environment.Variable("WORLD_SIZE"), &size) ? size : 1;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const JobClient>> JobClient::Open(const OpenOptions& options) {
  const std::shared_ptr<const Environment> environment = Environment::Copy();
  const std::string wanted = options.snapshot.value_or(environment->Variable("TUNE_SNAPSHOT"));
  ASSIGN_OR_RETURN(const Wish wish, Wish::Parse(wanted));
  const int ranks = WorldSize(*environment);
  if (!wish.pinned() && wanted != "latest" && ranks > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("this job has ", ranks,
                     " ranks and names no snapshot, so they may read different ones; start it with "
                     "TUNE_SNAPSHOT=sha256:..., which `tunectl snapshot pin` prints, or say "
                     "TUNE_SNAPSHOT=latest if the ranks may differ"));
  }
  LocalDevices();  // what it finds once, it finds before anybody forks
  Daemon daemon{options.address.empty() ? environment->default_address() : options.address,
                options.timeout, environment, options.bundle};
  const bool wants_to = environment->Variable("TUNE_RECORD_MISSES") == "1";
  const bool tells = options.record_misses.value_or(wants_to) && daemon.timeout.count() > 0;
  std::shared_ptr<Misses> misses = tells ? Misses::Of(daemon.address, environment) : nullptr;
  return std::shared_ptr<const JobClient>(
      new JobClient(FindSnapshot(wish, daemon), daemon, std::move(misses)));
}

std::shared_ptr<const JobClient> JobClient::NewerThan(const std::string& digest,
                                                      double fresh_seconds, int end_fd) const {
  if (!digest.empty() && DigestInFolder(daemon_) == digest) return nullptr;
  Daemon patient = daemon_;
  patient.end_fd = end_fd;
  if (patient.timeout.count() > 0) patient.timeout = kNewerTimeout;
  Found newest = FindSnapshot(Wish{.fresh_seconds = fresh_seconds}, patient);
  if (newest.snapshot == nullptr || newest.snapshot->digest() == digest) return nullptr;
  // The install's records are the last resort, not something newer.
  if (newest.source == kBundled) return nullptr;
  return std::shared_ptr<const JobClient>(new JobClient(std::move(newest), daemon_, misses_));
}

const std::string& JobClient::digest() const {
  static const auto* const kNone = new std::string();
  return found_.snapshot == nullptr ? *kNone : found_.snapshot->digest();
}

absl::StatusOr<std::shared_ptr<const KeptAnswer>> JobClient::Best(absl::string_view key,
                                                                  const Question& question) const {
  auto kept = std::make_shared<KeptAnswer>();
  kept->question = question;
  Answer& answer = kept->answer;
  if (found_.snapshot != nullptr) {
    ASSIGN_OR_RETURN(answer, Resolve(*found_.snapshot, found_.source, question));
  } else {
    answer.reason = absl::StrCat("there is no snapshot: ", absl::StrJoin(found_.notes, "; "));
    answer.kernel = question.kernel;
    answer.source = found_.source;
  }
  for (const auto& [name, value] : answer.config.entries) kept->macros.push_back(ToMacro(value));
  kept->expected = TextOf(answer.expectation);
  if (misses_ != nullptr && answer.match != lookup::Match::kExact) misses_->Add(answer);
  table_.Keep(key, kept);
  return kept;
}

absl::StatusOr<std::string> JobClient::Artifact(const std::string& digest) const {
  const auto now = std::chrono::steady_clock::now();
  Daemon daemon = daemon_;
  if (!home_.IsHere() || now < rests_until_.load()) daemon.timeout = std::chrono::milliseconds(0);
  absl::StatusOr<std::string> file = FindArtifact(digest, found_.folder, daemon);
  if (absl::IsNotFound(file.status()) && daemon.timeout.count() > 0) {
    rests_until_ = std::chrono::steady_clock::now() + kRest;
  }
  return file;
}

}  // namespace tune::library
