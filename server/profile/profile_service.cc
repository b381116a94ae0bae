// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/calibration/calibration_convert.h"
#include "server/calibration/calibration_job.h"
#include "server/profile/profile_convert.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr absl::Duration kProbeCap = absl::Seconds(60);
constexpr size_t kListBytesMax = 16 << 20;
constexpr uint32_t kListed = 100;
constexpr uint32_t kListedMax = 1000;

}  // namespace

grpc::ServerWriteReactor<v1::ProfileEvent>* ProfileService::RunProfile(
    grpc::CallbackServerContext* context, const v1::RunProfileRequest* request) {
  using Reactor = FeedReactor<v1::ProfileEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make(jobs_.ticker);
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  const Principal principal = jobs_.principals.Of(*context);
  const auto profile = std::make_shared<ProfileJob>(tools_, *request, NameSpaceOf(principal));
  StartJobCall<Reactor>(
      jobs_, reactor, [=, this](const Cancelled& cancelled) -> absl::StatusOr<Followed<Reactor>> {
        RETURN_IF_ERROR(profile->Check(deadline, cancelled));
        const Workload& workload = profile->workload();
        RETURN_IF_ERROR(
            jobs_.principals.KeepKernel(principal, ToRow(workload.named), tools_.store));
        const std::string subject = NameIn(NameSpaceOf(principal), workload.Subject());
        ASSIGN_OR_RETURN(
            std::shared_ptr<Job> job,
            jobs_.scheduler.Submit(
                {.kind = db::JobKind::kProfile, .owner = principal.name, .subject = subject},
                workload.device.ids, profile));
        return Followed<Reactor>{job, StepsAndResults(job, &v1::ProfileEvent::mutable_profile)};
      });
  return reactor.get();
}

grpc::ServerUnaryReactor* ProfileService::ListProfiles(grpc::CallbackServerContext* context,
                                                       const v1::ListProfilesRequest* request,
                                                       v1::ListProfilesResponse* response) {
  return AnswerOn(jobs_.executors.reads, context, [=, this]() -> absl::Status {
    const uint32_t limit = request->limit() == 0 ? kListed : std::min(request->limit(), kListedMax);
    ASSIGN_OR_RETURN(std::vector<db::ProfileRow> rows,
                     tools_.store.ListProfiles({.sweep_id = request->sweep_id(),
                                                .trial_id = request->trial_id(),
                                                .kernel_name = request->kernel_name(),
                                                .kernel_hash = request->kernel_hash(),
                                                .device_name = request->device_name(),
                                                .limit = limit}));
    size_t bytes = 0;
    for (const db::ProfileRow& row : rows) {
      v1::Profile& profile = *response->add_profiles();
      profile = ToProto(row);
      HideUnlessSeen(NameSpaceIn(row.kernel_name), profile);
      bytes += profile.ByteSizeLong();
      if (bytes > kListBytesMax) break;  // the newest are in it
    }
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::CalibrateEvent>* ProfileService::Calibrate(
    grpc::CallbackServerContext* context, const v1::CalibrateRequest* request) {
  using Reactor = FeedReactor<v1::CalibrateEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make(jobs_.ticker);
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  StartJobCall<Reactor>(
      jobs_, reactor,
      [=, this, owner = jobs_.principals.Of(*context).name, device = request->device()](
          const Cancelled& cancelled) -> absl::StatusOr<Followed<Reactor>> {
        ASSIGN_OR_RETURN(const DeviceChoice choice,
                         ChooseDevice(device, tools_.devices, deadline, cancelled));
        ASSIGN_OR_RETURN(
            std::shared_ptr<Job> job,
            jobs_.scheduler.Submit({.kind = db::JobKind::kCalibration,
                                    .owner = owner,
                                    .subject = choice.view.status.info.name},
                                   choice.ids,
                                   std::make_shared<CalibrationJob>(tools_.store, tools_.workers)));
        return Followed<Reactor>{job,
                                 StepsAndResults(job, &v1::CalibrateEvent::mutable_calibration)};
      });
  return reactor.get();
}

grpc::ServerUnaryReactor* ProfileService::GetCalibration(grpc::CallbackServerContext* context,
                                                         const v1::GetCalibrationRequest* request,
                                                         v1::Calibration* response) {
  const absl::Time deadline = DeadlineOf(*context, kProbeCap);
  return AnswerOn(jobs_.executors.waiting, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const DeviceView device,
                     NamedDevice(request->device(), tools_.devices, deadline));
    absl::StatusOr<db::CalibrationRow> row =
        tools_.store.LatestCalibration(device.status.info.name, "");
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
