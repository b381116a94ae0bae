// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/misses.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "db/job.h"
#include "server/access/principal.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {
namespace {

// Seconds of search. An idle device has time, but a job that wants it next waits for a trial to
// end.
constexpr double kSeconds = 60;

constexpr int kTriesMax = 100;
constexpr absl::Duration kFirstPause = absl::Minutes(10);
constexpr absl::Duration kLongestPause = absl::Hours(24);

// Equal for all who miss the same: so one sweep is queued, also after a restart. Each try has
// another, from 1. What was tuned with other headers of its include roots is missed anew.
std::string KeyOf(const db::SweepRow& sweep, const std::string& include_digest, int tries) {
  std::string text =
      absl::StrCat(sweep.kernel_name, "\n", sweep.kernel_hash, "\n", ToText(sweep.problem), "\n",
                   sweep.device_name, "\n", sweep.target);
  if (!include_digest.empty()) absl::StrAppend(&text, "\n", include_digest);
  return absl::StrCat("miss:", Sha256Hex(text), tries == 1 ? "" : absl::StrCat(":", tries));
}

// A kernel that is not in the catalogue is submitted as the records know it.
void NameKernel(const RecordAnswer& answer, const Catalogue& catalogue,
                v1::SubmitSweepRequest& request) {
  const Kernel& kernel = *answer.kernel;
  if (catalogue.kernels().contains(answer.kernel_name)) {
    request.set_kernel_name(answer.kernel_name);
    return;
  }
  v1::KernelSource& source = *request.mutable_kernel_source();
  source.set_spec_name(kernel.spec().name);
  source.set_spec_text(kernel.spec_text());
  source.mutable_files()->insert(kernel.files().begin(), kernel.files().end());
}

v1::SubmitSweepRequest RequestFor(const RecordAnswer& answer, const std::string& device,
                                  const Catalogue& catalogue) {
  v1::SubmitSweepRequest request;
  NameKernel(answer, catalogue, request);
  for (const auto& [name, value] : answer.problem.dims) (*request.mutable_dims())[name] = value;
  request.set_dtype(ToText(answer.problem.dtype));
  request.set_device(device);
  request.mutable_budget()->set_seconds(kSeconds);
  request.set_priority(v1::JOB_PRIORITY_BACKGROUND);
  return request;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DevicesForMiss(const std::vector<DeviceStatus>& known,
                                                        const std::string& name, uint64_t turn) {
  std::vector<std::string> ids;
  std::vector<std::string> unusable;
  for (const DeviceStatus& status : known) {
    if (status.info.name == name) (IsOutOfUse(status) ? unusable : ids).push_back(status.id);
  }
  if (ids.empty() && unusable.empty()) {
    return absl::NotFoundError(absl::StrCat("this host has no ", name));
  }
  if (ids.empty()) {
    return absl::UnavailableError(absl::StrCat(absl::StrJoin(unusable, ", "),
                                               " cannot be used now; see `tunectl device list`"));
  }
  std::rotate(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(turn % ids.size()), ids.end());
  return ids;
}

absl::Time RetryTime(int tries, const db::JobRow& last) {
  const bool unwanted = last.state == db::JobState::kCancelled;
  absl::Duration pause = unwanted ? kLongestPause : kFirstPause;
  for (int i = 1; i < tries && pause < kLongestPause; ++i) pause *= 4;
  return absl::FromUnixMillis(last.finished_unix_ms) + std::min(pause, kLongestPause);
}

absl::StatusOr<RecordedMiss> Misses::Queue(const RecordQuery& query, const std::string& owner,
                                           absl::Time deadline, const Cancelled& cancelled) const {
  // Else a daemon that has just begun does not know its own devices by name.
  RETURN_IF_ERROR(tools_.devices.List(deadline, cancelled).status());
  ASSIGN_OR_RETURN(const RecordAnswer answer, tools_.records.Lookup(query, cancelled));
  if (answer.match == lookup::Match::kExact) {
    return RecordedMiss{answer.record->trial.sweep_id, "already tuned"};
  }
  if (tools_.embedded) {
    return absl::FailedPreconditionError("nothing works in the background without a daemon");
  }
  if (answer.include_digest.empty() && !answer.kernel->spec().include_roots.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("tunerd does not offer the include roots of ", answer.kernel_name, ", ",
                     absl::StrJoin(answer.kernel->spec().include_roots, ", "),
                     ": start it with --include-root"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                   DevicesForMiss(*tools_.devices.Known(), answer.device_name, next_turn_++));
  ASSIGN_OR_RETURN(
      Submission submission,
      CheckSubmission(RequestFor(answer, devices.front(), tools_.catalogue), tools_.catalogue,
                      tools_.devices, tools_.solver, deadline, cancelled));
  submission.device_ids = devices;
  // The sweep's results belong to the kernel's name space, whoever asked.
  submission.sweep.kernel_name = answer.kernel_name;
  submission.sweep.name_space = NameSpaceIn(answer.kernel_name);
  submission.sweep.job.subject = NameIn(submission.sweep.name_space, submission.sweep.job.subject);
  submission.sweep.job.owner = owner;
  for (int tries = 1; tries <= kTriesMax; ++tries) {
    submission.sweep.idempotency_key = KeyOf(submission.sweep, answer.include_digest, tries);
    ASSIGN_OR_RETURN(const db::SweepRow last, SubmitOnce(submission));
    if (last.job.created_unix_ms == submission.sweep.job.created_unix_ms) {
      return RecordedMiss{last.id, "queued"};
    }
    if (!db::IsFinished(last.job.state)) return RecordedMiss{last.id, "already queued"};
    const absl::Time again = RetryTime(tries, last.job);
    const absl::Time now = absl::Now();
    const bool clock_was_set_back = again - now > kLongestPause;
    if (now >= again || clock_was_set_back) continue;
    const std::string when = absl::FormatTime("%Y-%m-%d %H:%M", again, absl::UTCTimeZone());
    return RecordedMiss{
        last.id, absl::StrCat("was tried and left no record; whoever misses it after ", when,
                              " UTC has it tried again; see: tunectl sweep watch ", last.id)};
  }
  return absl::FailedPreconditionError(absl::StrCat(
      kTriesMax, " sweeps of it left no record; tune it with: tunectl sweep ", answer.kernel_name));
}

absl::StatusOr<db::SweepRow> Misses::SubmitOnce(Submission& submission) const {
  // No two sweeps have the same creation time, by which each asker knows whether the sweep is its
  // own.
  MutexLock lock(mutex_);
  int64_t& created_unix_ms = submission.sweep.job.created_unix_ms;
  created_unix_ms = std::max(absl::ToUnixMillis(absl::Now()), last_created_unix_ms_ + 1);
  last_created_unix_ms_ = created_unix_ms;
  ASSIGN_OR_RETURN(const SweepView view, tools_.sweeps.Submit(submission));
  return view.row;
}

RecordedMiss Misses::Record(const RecordQuery& query, const std::string& owner, absl::Time deadline,
                            const Cancelled& cancelled) const {
  absl::StatusOr<RecordedMiss> miss = Queue(query, owner, deadline, cancelled);
  if (miss.ok()) return *std::move(miss);
  return {.note = absl::StrCat("not queued: ", miss.status().message())};
}

}  // namespace tune::server
