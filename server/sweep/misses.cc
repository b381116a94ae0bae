// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/misses.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/job.h"
#include "server/access/principal.h"
#include "server/sweep/submission.h"
#include "tune/v1/sweep.pb.h"
#include "tuner/sha256.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

// Of the search. An idle device has time, but whoever wants it next waits for a trial to end.
constexpr double kSeconds = 60;

// Equal for all who miss the same: so one sweep is queued, also after a restart.
std::string KeyOf(const db::SweepRow& sweep) {
  const std::string text =
      absl::StrCat(sweep.kernel_name, "\n", sweep.kernel_hash, "\n", ToText(sweep.problem), "\n",
                   sweep.device_name, "\n", sweep.target);
  return absl::StrCat("miss:", Sha256Hex(text));
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
  source.set_spec_name(kernel.spec().name());
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

// The id of the host's device that the answer is for: a name may be given, a sweep takes an id.
std::optional<std::string> DeviceId(const RecordAnswer& answer, const Devices& devices) {
  for (const DeviceStatus& status : devices.Known()) {
    if (status.info.name == answer.device_name) return status.id;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<RecordedMiss> Misses::Queue(const RecordQuery& query, const std::string& owner,
                                           absl::Time deadline, const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(const RecordAnswer answer, tools_.records.Lookup(query, cancelled));
  if (answer.match == Match::kExact) {
    return RecordedMiss{answer.record->trial.sweep_id, "already tuned"};
  }
  if (tools_.embedded) {
    return absl::FailedPreconditionError("nothing works in the background without a daemon");
  }
  const std::optional<std::string> device = DeviceId(answer, tools_.devices);
  if (!device) {
    return absl::NotFoundError(absl::StrCat("this host has no ", answer.device_name));
  }
  ASSIGN_OR_RETURN(Submission submission,
                   CheckSubmission(RequestFor(answer, *device, tools_.catalogue), tools_.catalogue,
                                   tools_.devices, tools_.solver, deadline, cancelled));
  // What is found belongs where it was missed, whoever asked.
  submission.sweep.kernel_name = answer.kernel_name;
  submission.sweep.name_space = NameSpaceIn(answer.kernel_name);
  submission.sweep.idempotency_key = KeyOf(submission.sweep);
  submission.sweep.job.owner = owner;
  // No two were created at the same time, so that each asker knows whether the sweep is his.
  std::lock_guard lock(mutex_);
  int64_t& created_unix_ms = submission.sweep.job.created_unix_ms;
  created_unix_ms = std::max(created_unix_ms, last_created_unix_ms_ + 1);
  last_created_unix_ms_ = created_unix_ms;
  ASSIGN_OR_RETURN(const SweepView view, tools_.sweeps.Submit(submission));
  const db::JobRow& job = view.row.job;
  if (job.created_unix_ms == created_unix_ms) return RecordedMiss{view.row.id, "queued"};
  if (!db::IsFinished(job.state)) return RecordedMiss{view.row.id, "already queued"};
  return RecordedMiss{view.row.id, absl::StrCat("was tried and left no record; see: tunectl sweep ",
                                                "watch ", view.row.id)};
}

RecordedMiss Misses::Record(const RecordQuery& query, const std::string& owner,
                            absl::Time deadline, const Cancelled& cancelled) const {
  absl::StatusOr<RecordedMiss> miss = Queue(query, owner, deadline, cancelled);
  if (miss.ok()) return *std::move(miss);
  return {.note = absl::StrCat("not queued: ", miss.status().message())};
}

}  // namespace tune::server
