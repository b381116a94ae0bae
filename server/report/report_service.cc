// SPDX-License-Identifier: Apache-2.0
#include "server/report/report_service.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/devices/device_convert.h"
#include "server/kernels/kernel_source.h"
#include "server/report/fusion_report.h"
#include "server/report/roofline_report.h"
#include "server/report/sweep_course.h"
#include "server/report/sweep_evidence.h"
#include "server/report/sweep_report.h"
#include "server/rpc/unary.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"
#include "server/workload/workload.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(20);
constexpr absl::Duration kReportCap = absl::Minutes(10);
constexpr uint32_t kCoursePointsMost = 20000;
constexpr size_t kCoursePoints = 2000;          // if the request names no number
constexpr uint32_t kCourseTrialsMax = 500'000;  // of the newest
constexpr int kSweepsMax = 64;
constexpr int kKernelNamesMax = 64;

bool Fits(const db::SweepRow& row, const v1::GetRooflinesRequest& request) {
  const auto& names = request.kernel_names();
  const bool kernel =
      names.empty() || std::find(names.begin(), names.end(), row.kernel_name) != names.end();
  const std::string& device = request.device();
  return kernel && row.job.state == db::JobState::kDone && row.best_trial_id != 0 &&
         (device.empty() || device == row.job.device_id || device == row.device_name);
}

// The newest finished sweep of each problem and device that fits, newest first.
absl::StatusOr<std::vector<int64_t>> ChooseSweeps(db::SweepStore& store,
                                                  const v1::GetRooflinesRequest& request) {
  std::vector<int64_t> ids;
  for (const int64_t id : request.sweep_ids()) {
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
    if (ids.size() == kSweepsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a report has at most ", kSweepsMax, " sweeps"));
    }
    ids.push_back(id);
  }
  RETURN_IF_ERROR(CheckName("the device", request.device()));
  if (request.kernel_names_size() > kKernelNamesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.kernel_names_size(), " kernel names; at most ", kKernelNamesMax));
  }
  for (const std::string& name : request.kernel_names()) {
    RETURN_IF_ERROR(CheckName("the kernel's name", name));
  }
  if (!ids.empty()) return ids;
  ASSIGN_OR_RETURN(std::vector<db::SweepRow> rows, store.ListSweeps(kSweepsSearched));
  std::set<std::string> seen;
  for (const db::SweepRow& row : rows) {
    if (!Fits(row, request) || ids.size() == kSweepsMax) continue;
    const std::string key = absl::StrCat(row.kernel_name, "\n", ToText(row.problem), "\n",
                                         row.device_name, "\n", ToText(row.cache_mode));
    if (seen.insert(key).second) ids.push_back(row.id);
  }
  if (!ids.empty()) return ids;
  std::string what =
      request.kernel_names().empty() ? "any kernel" : absl::StrJoin(request.kernel_names(), ", ");
  if (!request.device().empty()) absl::StrAppend(&what, " on ", request.device());
  return absl::NotFoundError(absl::StrCat("no finished sweep of ", what,
                                          "; tune one with `tunectl sweep KERNEL`, or see "
                                          "`tunectl sweep list`"));
}

// The device of a sweep as it is now; only its name where this host has none such.
DeviceInfo InfoOf(const Devices& devices, const db::SweepRow& sweep, absl::Time deadline,
                  const Cancelled& cancelled) {
  DeviceInfo info = {.name = sweep.device_name};
  const absl::StatusOr<std::vector<DeviceView>> views = devices.List(deadline, cancelled);
  if (!views.ok()) return info;
  for (const DeviceView& view : *views) {
    if (view.status.info.name != sweep.device_name) continue;
    // If several devices have the name, the device that the sweep ran on counts.
    if (view.status.id == sweep.job.device_id) return view.status.info;
    if (info.target.empty()) info = view.status.info;
  }
  return info;
}

}  // namespace

grpc::ServerUnaryReactor* ReportService::GetRooflines(grpc::CallbackServerContext* context,
                                                      const v1::GetRooflinesRequest* request,
                                                      v1::RooflineReport* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  const auto make = [=, this](const Cancelled& cancelled) -> absl::Status {
    const absl::Time now = absl::Now();
    response->set_created_unix_ms(absl::ToUnixMillis(now));
    response->set_version(TUNE_VERSION);
    ASSIGN_OR_RETURN(std::vector<int64_t> ids, ChooseSweeps(store_, *request));
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids[i];
      ASSIGN_OR_RETURN(SweepEvidence evidence, GatherEvidence(store_, sweeps_, id, cancelled));
      const db::SweepRow& row = evidence.view.row;
      ASSIGN_OR_RETURN(auto kernel, KernelOf(store_, row.kernel_hash));
      const DeviceInfo info = InfoOf(devices_, row, deadline, cancelled);
      RooflineSources sources{.kernel = *kernel,
                              .cache_bytes = static_cast<uint64_t>(info.l2_bytes)};
      ASSIGN_OR_RETURN(sources.counted, CountedTrials(store_, id));
      ASSIGN_OR_RETURN(std::vector<db::CeilingRow> ceilings,
                       store_.GetCeilings(row.device_name, evidence.key.driver, info.uuid));
      sources.ceilings = Seen(std::move(ceilings), info, now);
      ASSIGN_OR_RETURN(v1::Roofline roofline,
                       MakeRoofline(evidence, sources, NextLimit(*response, ids.size() - i)));
      HideUnlessSeen(row.name_space, roofline);
      *response->add_rooflines() = std::move(roofline);
    }
    return absl::OkStatus();
  };
  return AnswerOn(executors_.heavy, context, kReportCap, make);
}

grpc::ServerUnaryReactor* ReportService::GetSweepReport(grpc::CallbackServerContext* context,
                                                        const v1::GetSweepReportRequest* request,
                                                        v1::SweepReport* response) {
  const auto make = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(SweepEvidence evidence,
                     GatherEvidence(store_, sweeps_, request->sweep_id(), cancelled));
    ASSIGN_OR_RETURN(*response, MakeSweepReport(evidence,
                                                {.row_param = request->row_param(),
                                                 .column_param = request->column_param()},
                                                cancelled));
    HideUnlessSeen(evidence.view.row.name_space, *response);
    response->set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
    response->set_version(TUNE_VERSION);
    return absl::OkStatus();
  };
  return AnswerOn(executors_.heavy, context, kReportCap, make);
}

grpc::ServerUnaryReactor* ReportService::GetSweepCourse(grpc::CallbackServerContext* context,
                                                        const v1::GetSweepCourseRequest* request,
                                                        v1::SweepCourse* response) {
  if (request->points_max() > kCoursePointsMost) {
    return Answer(context, absl::InvalidArgumentError(absl::StrCat(
                               request->points_max(), " points; at most ", kCoursePointsMost)));
  }
  const auto make = [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const SweepView view, sweeps_.Get(request->sweep_id()));
    ASSIGN_OR_RETURN(const std::vector<db::TrialPoint> trials,
                     store_.PointsOfSweep(view.row.id, kCourseTrialsMax));
    const size_t most = request->points_max() == 0 ? kCoursePoints : request->points_max();
    *response = MakeSweepCourse(trials, most);
    *response->mutable_sweep() = ToProto(view);
    HideUnlessSeen(view.row.name_space, *response);
    return absl::OkStatus();
  };
  return AnswerOn(executors_.reads, context, make);
}

grpc::ServerUnaryReactor* ReportService::GetFusionReport(grpc::CallbackServerContext* context,
                                                         const v1::GetFusionReportRequest* request,
                                                         v1::FusionReport* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  const auto make = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(const DeviceChoice device,
                     ChooseDevice(request->device(), devices_, deadline, cancelled));
    ASSIGN_OR_RETURN(*response,
                     MakeFusionReport(*request, {store_, sweeps_, catalogue_, device}, cancelled));
    response->set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
    response->set_version(TUNE_VERSION);
    return absl::OkStatus();
  };
  return AnswerOn(executors_.heavy, context, kReportCap, make);
}

}  // namespace tune::server
