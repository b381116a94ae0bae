// SPDX-License-Identifier: Apache-2.0
#include "client/cli/gate_call.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/job_follow.h"
#include "client/report/gate_report.h"
#include "client/report/terminal.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::client {
namespace {

constexpr size_t kRequestBytesMax = (24 << 20) - 1024;
constexpr auto kReadTimeout = std::chrono::minutes(10);

absl::StatusOr<v1::GateRun> GetGate(Connection& connection, int64_t run_id) {
  v1::GetGateRequest request;
  request.set_run_id(run_id);
  request.set_with_rounds(true);
  return Call(&connection, &v1::GateService::Stub::GetGate, request, kReadTimeout);
}

}  // namespace

absl::StatusOr<v1::Job> SubmitGate(Connection& connection, const v1::SubmitGateRequest& request) {
  if (request.ByteSizeLong() > kRequestBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the kernels of the run have more than ", kRequestBytesMax >> 20,
                     " MiB of sources: take fewer at a time, with --kernels"));
  }
  return Call(&connection, &v1::GateService::Stub::SubmitGate, request);
}

absl::StatusOr<v1::GateRun> RunGate(Connection& connection, const v1::SubmitGateRequest& request,
                                    bool quiet) {
  ASSIGN_OR_RETURN(const v1::Job job, SubmitGate(connection, request));
  int64_t run_id = 0;
  ProgressMeter meter(quiet);
  meter.Show("gate  waiting for a device");  // equal code may be over before its first event
  const auto show = [&](const v1::JobEvent& event) {
    std::string text = IsUnfinished(event.job().state()) ? event.job().message() : "";
    ForEachResult<v1::GateRun>(event, [&](const v1::GateRun& run) { run_id = run.id(); });
    ForEachResult<v1::GateProgress>(
        event, [&](const v1::GateProgress& progress) { text = ProgressText(progress); });
    if (!text.empty()) meter.Show(text);
  };
  const auto followed = FollowJob(connection, job.id(), OnInterrupt::kCancelJob, show);
  meter.Clear();
  RETURN_IF_ERROR(followed.status());
  if (followed->interrupted) {
    return absl::CancelledError("interrupted; the measurements are stored");
  }
  RETURN_IF_ERROR(followed->error);
  if (followed->job.state() == v1::JOB_STATE_CANCELLED) {
    return absl::CancelledError("the run was cancelled; the measurements are stored");
  }
  return GetGate(connection, run_id);
}

void PrintGate(const v1::GateRun& run) { std::fputs(ReportText(run).c_str(), stdout); }

absl::StatusOr<double> ParseShare(const std::string& flag, const std::string& text) {
  absl::string_view number = text;
  const bool percent = absl::ConsumeSuffix(&number, "%");
  double value = 0;
  if (absl::SimpleAtod(number, &value) && value > 0 && value < 1e6) {
    return percent ? value / 100 : value;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " needs a share such as 1% or 0.01, not '", text, "'"));
}

}  // namespace tune::client
