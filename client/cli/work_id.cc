// SPDX-License-Identifier: Apache-2.0
#include "client/cli/work_id.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/job_follow.h"
#include "tune/v1/comparison.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

enum class Kind { kJob, kSweep };

struct WorkId {
  Kind kind;
  int64_t number = 0;
};

// Parses "9", "job:9", "job 9" or "sweep:7".
absl::StatusOr<WorkId> Parse(const std::string& text, Kind by_default) {
  absl::string_view rest = text;
  WorkId id{by_default};
  if (absl::ConsumePrefix(&rest, "job")) id.kind = Kind::kJob;
  if (absl::ConsumePrefix(&rest, "sweep")) id.kind = Kind::kSweep;
  if (rest.size() < text.size() && !absl::ConsumePrefix(&rest, ":")) {
    rest = absl::StripLeadingAsciiWhitespace(rest);
  }
  if (absl::SimpleAtoi(rest, &id.number) && id.number > 0) return id;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text,
      "' is no id: give a number, job:<number> or sweep:<number>, as `tunectl job list` "
      "and `tunectl sweep list` have them"));
}

absl::StatusOr<int64_t> SweepOfJob(Connection& connection, int64_t job_id) {
  ASSIGN_OR_RETURN(const v1::Job job, GetJob(connection, job_id));
  if (const int64_t id = SweepIn(job).id(); id != 0) return id;
  return absl::NotFoundError(absl::StrCat("job ", job_id, ", of ", job.subject(),
                                          ", is no sweep; see `tunectl sweep list`"));
}

}  // namespace

absl::StatusOr<v1::Sweep> GetSweep(Connection& connection, int64_t sweep_id) {
  v1::GetSweepRequest request;
  request.set_sweep_id(sweep_id);
  return Call(&connection, &v1::SweepService::Stub::GetSweep, request);
}

absl::StatusOr<v1::Comparison> GetComparison(Session& session, int64_t id, bool with_rounds) {
  v1::GetComparisonRequest request;
  request.set_comparison_id(id);
  request.set_with_rounds(with_rounds);
  return Call(session.Connect(Need::kRead), &v1::CompareService::Stub::GetComparison, request);
}

absl::StatusOr<v1::Sweep> FindSweep(Connection& connection, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t id, SweepIdOf(connection, text));
  return GetSweep(connection, id);
}

absl::StatusOr<int64_t> JobIdOf(Connection& connection, const std::string& text) {
  ASSIGN_OR_RETURN(const WorkId id, Parse(text, Kind::kJob));
  if (id.kind == Kind::kJob) return id.number;
  ASSIGN_OR_RETURN(const v1::Sweep sweep, GetSweep(connection, id.number));
  return sweep.job_id();
}

absl::StatusOr<int64_t> SweepIdOf(Connection& connection, const std::string& text) {
  ASSIGN_OR_RETURN(const WorkId id, Parse(text, Kind::kSweep));
  return id.kind == Kind::kSweep ? id.number : SweepOfJob(connection, id.number);
}

}  // namespace tune::client
