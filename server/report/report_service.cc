// SPDX-License-Identifier: Apache-2.0
#include "server/report/report_service.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/report/roofline_report.h"
#include "server/report/sweep_evidence.h"
#include "server/report/sweep_report.h"
#include "server/unary.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(20);
constexpr absl::Duration kCeilingFresh = absl::Hours(24 * 30);
constexpr uint32_t kSweepsSearched = 1000;
constexpr int kSweepsMax = 64;

bool Fits(const db::SweepRow& row, const v1::GetRooflinesRequest& request) {
  const auto& names = request.kernel_names();
  const bool kernel =
      names.empty() || std::find(names.begin(), names.end(), row.kernel_name) != names.end();
  const std::string& device = request.device();
  return kernel && row.state == db::SweepState::kDone && row.best_trial_id != 0 &&
         (device.empty() || device == row.device_id || device == row.device_name);
}

// The newest finished sweep of each problem and device that fits, newest first.
absl::StatusOr<std::vector<int64_t>> ChooseSweeps(db::Store& store,
                                                  const v1::GetRooflinesRequest& request) {
  std::vector<int64_t> ids(request.sweep_ids().begin(), request.sweep_ids().end());
  if (ids.size() > kSweepsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(ids.size(), " sweeps in one report; at most ", kSweepsMax));
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

v1::Ceiling ToProto(const db::CeilingRow& row, absl::Time now) {
  v1::Ceiling ceiling;
  ceiling.set_name(row.ceiling.name);
  ceiling.set_value(row.ceiling.value);
  ceiling.set_source(row.ceiling.measured ? "measured" : "nominal");
  ceiling.set_measured_unix_ms(row.measured_unix_ms);
  ceiling.set_driver(row.driver);
  const absl::Duration age = now - absl::FromUnixMillis(row.measured_unix_ms);
  if (age > kCeilingFresh) {
    ceiling.set_stale(true);
    ceiling.set_stale_reason(absl::StrCat("measured ", absl::ToInt64Hours(age) / 24, " days ago"));
  }
  return ceiling;
}

uint64_t CacheBytes(const Devices& devices, const std::string& name, absl::Time deadline) {
  const absl::StatusOr<std::vector<DeviceView>> views = devices.List(deadline);
  if (!views.ok()) return 0;
  for (const DeviceView& view : *views) {
    if (view.status.info.name == name) return view.status.info.l2_bytes;
  }
  return 0;
}

}  // namespace

grpc::ServerUnaryReactor* ReportService::GetRooflines(grpc::CallbackServerContext* context,
                                                      const v1::GetRooflinesRequest* request,
                                                      v1::RooflineReport* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(executor_, context, [=, this]() -> absl::Status {
    const absl::Time now = absl::Now();
    response->set_created_unix_ms(absl::ToUnixMillis(now));
    response->set_version(TUNE_VERSION);
    ASSIGN_OR_RETURN(std::vector<int64_t> ids, ChooseSweeps(store_, *request));
    for (int64_t id : ids) {
      ASSIGN_OR_RETURN(SweepEvidence evidence, GatherEvidence(store_, queue_, id));
      const db::SweepRow& row = evidence.view.row;
      ASSIGN_OR_RETURN(auto kernel, KernelOf(store_, row.kernel_hash));
      RooflineSources sources{.kernel = *kernel,
                              .cache_bytes = CacheBytes(devices_, row.device_name, deadline)};
      ASSIGN_OR_RETURN(std::vector<db::CeilingRow> ceilings,
                       store_.GetCeilings(row.device_name, evidence.key.driver));
      for (const db::CeilingRow& ceiling : ceilings) {
        sources.ceilings.push_back(ToProto(ceiling, now));
      }
      ASSIGN_OR_RETURN(*response->add_rooflines(), MakeRoofline(evidence, sources));
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ReportService::GetSweepReport(grpc::CallbackServerContext* context,
                                                        const v1::GetSweepReportRequest* request,
                                                        v1::SweepReport* response) {
  return AnswerOn(executor_, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(SweepEvidence evidence, GatherEvidence(store_, queue_, request->sweep_id()));
    ASSIGN_OR_RETURN(*response,
                     MakeSweepReport(evidence, {.row_param = request->row_param(),
                                                .column_param = request->column_param()}));
    response->set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
    response->set_version(TUNE_VERSION);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
