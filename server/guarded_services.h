// SPDX-License-Identifier: Apache-2.0
// The services as they are registered with gRPC: each call first asks whether its caller may make
// it, whatever connection it comes by. A service itself asks only what depends on its data.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/access/principals.h"
#include "server/access/token_service.h"
#include "server/bench/bench_service.h"
#include "server/comparison/comparison_service.h"
#include "server/device_service.h"
#include "server/gate/gate_service.h"
#include "server/jobs/job_service.h"
#include "server/kernels/kernel_service.h"
#include "server/profile/profile_service.h"
#include "server/records/record_service.h"
#include "server/report/report_service.h"
#include "server/rpc/refusal.h"
#include "server/rpc/standing_call.h"
#include "server/server_service.h"
#include "server/snapshots/snapshot_service.h"
#include "server/supervision/acting_for.h"
#include "server/sweep/sweep_service.h"

namespace tune::server {

// `Service` implements `Contract`, one of proto/.
template <typename Service, typename Contract>
class Guarded : public Service {
 public:
  template <typename... Arguments>
  explicit Guarded(const Principals& principals, Arguments&&... arguments)
      : Service(std::forward<Arguments>(arguments)...), principals_(principals) {}

 protected:
  using Inner = Service;
  // A request for the log. Null for those that are not parsed yet.
  static const google::protobuf::Message* ToLog(const google::protobuf::Message* request) {
    return request;
  }
  static const google::protobuf::Message* ToLog(const grpc::ByteBuffer*) { return nullptr; }
  // Null: the call may begin, and `sharer` says for whom it is worked on. Else what ends it.
  template <typename Reactor>
  Reactor* Refuse(const grpc::CallbackServerContext& context, const char* method,
                  const google::protobuf::Message* request, Sharer& sharer) const {
    const std::string path = absl::StrCat("/", Contract::service_full_name(), "/", method);
    absl::StatusOr<Principal> principal = principals_.Admit(context, path);
    if (!principal.ok()) {
      const absl::Status& why = principal.status();
      return new Refusal<Reactor>(why, principals_.NoteRefused(context, path, why));
    }
    principals_.NoteAct(context, path, request);
    sharer = {.name = std::move(principal->name),
              .has_reserve = principal->role == db::Role::kOperator};
    return nullptr;
  }
  template <typename Reactor>
  Reactor* Stand(const grpc::CallbackServerContext& context, Reactor* reactor) const {
    auto* const call = dynamic_cast<StandingCall*>(reactor);
    if (call != nullptr) call->SetStanding(principals_.StandingOf(context));
    return reactor;
  }

 private:
  const Principals& principals_;
};

template <typename Method>
struct MethodTypes;
template <typename Service, typename R, typename... Arguments>
struct MethodTypes<R* (Service::*)(grpc::CallbackServerContext*, Arguments*...)> {
  using Reactor = R;
  // The request comes first, the response last.
  template <size_t index>
  using Argument = std::tuple_element_t<index, std::tuple<Arguments*...>>;
};

#define TUNE_TYPES(Method) MethodTypes<decltype(&Inner::Method)>
#define TUNE_GUARDED_UNARY(Method)                                                         \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context,                   \
                                   TUNE_TYPES(Method)::Argument<0> request,                \
                                   TUNE_TYPES(Method)::Argument<1> response) override {    \
    Sharer sharer;                                                                         \
    auto* const refusal =                                                                  \
        Refuse<grpc::ServerUnaryReactor>(*context, #Method, this->ToLog(request), sharer); \
    if (refusal != nullptr) return refusal;                                                \
    const ActingFor acting(std::move(sharer));                                             \
    return Inner::Method(context, request, response);                                      \
  }
// A client is streamed the answer to one request.
#define TUNE_GUARDED_STREAM(Method)                                                       \
  TUNE_TYPES(Method)::Reactor* Method(grpc::CallbackServerContext* context,               \
                                      TUNE_TYPES(Method)::Argument<0> request) override { \
    using Reactor = TUNE_TYPES(Method)::Reactor;                                          \
    Sharer sharer;                                                                        \
    auto* const refusal = Refuse<Reactor>(*context, #Method, request, sharer);            \
    if (refusal != nullptr) return refusal;                                               \
    const ActingFor acting(std::move(sharer));                                            \
    return Stand(*context, Inner::Method(context, request));                              \
  }
// A client streams its request.
#define TUNE_GUARDED_UPLOAD(Method)                                                        \
  TUNE_TYPES(Method)::Reactor* Method(grpc::CallbackServerContext* context,                \
                                      TUNE_TYPES(Method)::Argument<0> response) override { \
    using Reactor = TUNE_TYPES(Method)::Reactor;                                           \
    Sharer sharer;                                                                         \
    auto* const refusal = Refuse<Reactor>(*context, #Method, nullptr, sharer);             \
    if (refusal != nullptr) return refusal;                                                \
    const ActingFor acting(std::move(sharer));                                             \
    return Stand(*context, Inner::Method(context, response));                              \
  }
#define TUNE_GUARDED_STREAMS(Method)                                                   \
  TUNE_TYPES(Method)::Reactor* Method(grpc::CallbackServerContext* context) override { \
    using Reactor = TUNE_TYPES(Method)::Reactor;                                       \
    Sharer sharer;                                                                     \
    auto* const refusal = Refuse<Reactor>(*context, #Method, nullptr, sharer);         \
    if (refusal != nullptr) return refusal;                                            \
    const ActingFor acting(std::move(sharer));                                         \
    return Stand(*context, Inner::Method(context));                                    \
  }

struct GuardedSweepService final : Guarded<SweepService, v1::SweepService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(SubmitSweep)
  TUNE_GUARDED_STREAM(WatchSweep)
  TUNE_GUARDED_UNARY(CancelSweep)
  TUNE_GUARDED_UNARY(GetSweep)
  TUNE_GUARDED_UNARY(ListSweeps)
  TUNE_GUARDED_STREAM(ListTrials)
};

struct GuardedJobService final : Guarded<JobService, v1::JobService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(ListJobs)
  TUNE_GUARDED_UNARY(GetJob)
  TUNE_GUARDED_STREAM(WatchJob)
  TUNE_GUARDED_UNARY(CancelJob)
  TUNE_GUARDED_UNARY(CancelJobs)
};

struct GuardedKernelService final : Guarded<KernelService, v1::KernelService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(ListKernels)
  TUNE_GUARDED_UNARY(GetKernel)
  TUNE_GUARDED_STREAM(CheckKernel)
  TUNE_GUARDED_UNARY(DescribeSpace)
  TUNE_GUARDED_UNARY(SampleSpace)
};

struct GuardedDeviceService final : Guarded<DeviceService, v1::DeviceService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(ListDevices)
  TUNE_GUARDED_UNARY(GetDevice)
  TUNE_GUARDED_UNARY(RetryDevice)
  TUNE_GUARDED_STREAM(MeasureCeilings)
};

struct GuardedProfileService final : Guarded<ProfileService, v1::ProfileService> {
  using Guarded::Guarded;
  TUNE_GUARDED_STREAM(RunProfile)
  TUNE_GUARDED_UNARY(ListProfiles)
  TUNE_GUARDED_STREAM(Calibrate)
  TUNE_GUARDED_UNARY(GetCalibration)
};

struct GuardedRecordService final : Guarded<RecordService, v1::RecordService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(Lookup)
  TUNE_GUARDED_UNARY(LookupMany)
  TUNE_GUARDED_UNARY(RecordMisses)
  TUNE_GUARDED_UNARY(ListRecords)
  TUNE_GUARDED_UNARY(Explain)
  TUNE_GUARDED_UNARY(ReadArtifact)
};

struct GuardedSnapshotService final : Guarded<SnapshotService, v1::SnapshotService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(ListSnapshots)
  TUNE_GUARDED_UNARY(ReadSnapshot)
  TUNE_GUARDED_UNARY(PinSnapshot)
  TUNE_GUARDED_UNARY(UnpinSnapshot)
  TUNE_GUARDED_UPLOAD(ImportSnapshot)
  TUNE_GUARDED_UPLOAD(ImportArtifact)
  TUNE_GUARDED_UNARY(PruneSnapshots)
};

struct GuardedBenchService final : Guarded<BenchService, v1::BenchService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(Measure)
};

struct GuardedReportService final : Guarded<ReportService, v1::ReportService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(GetRooflines)
  TUNE_GUARDED_UNARY(GetFusionReport)
  TUNE_GUARDED_UNARY(GetSweepReport)
};

struct GuardedServerService final : Guarded<ServerService, v1::ServerService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(GetStatus)
  TUNE_GUARDED_UNARY(PruneJobs)
  TUNE_GUARDED_UNARY(ClearCompileCache)
};

struct GuardedGateService final : Guarded<GateService, v1::GateService> {
  using Guarded::Guarded;
  TUNE_GUARDED_STREAMS(RunGate)
  TUNE_GUARDED_UNARY(ListGates)
  TUNE_GUARDED_UNARY(GetGate)
  TUNE_GUARDED_UNARY(RecomputeGate)
  TUNE_GUARDED_UNARY(ResampleGate)
  TUNE_GUARDED_UNARY(SetBaseline)
  TUNE_GUARDED_UNARY(ListBaselines)
  TUNE_GUARDED_UNARY(GetHistory)
};

struct GuardedComparisonService final : Guarded<ComparisonService, v1::CompareService> {
  using Guarded::Guarded;
  TUNE_GUARDED_STREAM(RunComparison)
  TUNE_GUARDED_UNARY(AnswerPeer)
  TUNE_GUARDED_UNARY(ListComparisons)
  TUNE_GUARDED_UNARY(GetComparison)
};

struct GuardedTokenService final : Guarded<TokenService, v1::TokenService> {
  using Guarded::Guarded;
  TUNE_GUARDED_UNARY(CreateToken)
  TUNE_GUARDED_UNARY(ListTokens)
  TUNE_GUARDED_UNARY(RevokeToken)
};

#undef TUNE_TYPES
#undef TUNE_GUARDED_UNARY
#undef TUNE_GUARDED_STREAM
#undef TUNE_GUARDED_UPLOAD
#undef TUNE_GUARDED_STREAMS

}  // namespace tune::server
