// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_service.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/access/principal.h"
#include "server/calibration/calibration_convert.h"
#include "server/profile/profile_convert.h"
#include "server/rpc/page.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "server/workload/workload.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr size_t kListBytesMax = 16 << 20;
constexpr uint32_t kListed = 100;

}  // namespace

grpc::ServerUnaryReactor* ProfileService::ListProfiles(grpc::CallbackServerContext* context,
                                                       const v1::ListProfilesRequest* request,
                                                       v1::ListProfilesResponse* response) {
  return AnswerOn(jobs_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const Page page, PageOf(*request, kListed));
    ASSIGN_OR_RETURN(std::vector<db::ProfileRow> rows,
                     jobs_.store.ListProfiles({.sweep_id = request->sweep_id(),
                                               .trial_id = request->trial_id(),
                                               .kernel_name = request->kernel_name(),
                                               .kernel_hash = request->kernel_hash(),
                                               .device_name = request->device_name(),
                                               .limit = page.limit,
                                               .before_id = page.before_id}));
    size_t bytes = 0;
    for (const db::ProfileRow& row : rows) {
      v1::Profile& profile = *response->add_profiles();
      profile = ToProto(row);
      HideUnlessSeen(NameSpaceIn(row.kernel_name), profile);
      response->set_next_page_token(absl::StrCat(row.profile.id));
      bytes += profile.ByteSizeLong();
      if (bytes > kListBytesMax) break;  // the newest are in it
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ProfileService::GetCalibration(grpc::CallbackServerContext* context,
                                                         const v1::GetCalibrationRequest* request,
                                                         v1::Calibration* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(jobs_.executors.waiting, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const DeviceView device, NamedDevice(request->device(), devices_, deadline));
    absl::StatusOr<db::CalibrationRow> row =
        jobs_.store.LatestCalibration(device.status.info.name, "");
    if (absl::IsNotFound(row.status())) {
      return absl::NotFoundError(absl::StrCat("the counters of ", device.status.id,
                                              " were never calibrated; run `tunectl device "
                                              "calibrate ",
                                              device.status.id, "`"));
    }
    RETURN_IF_ERROR(row.status());
    *response = ToProto(*row);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
