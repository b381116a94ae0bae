// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/access.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"

namespace tune::server {
namespace {

constexpr std::pair<absl::string_view, Needs> kCalls[] = {
    {"/tune.v1.SweepService/SubmitSweep", Needs::kTrust},
    {"/tune.v1.SweepService/WatchSweep", Needs::kReading},
    {"/tune.v1.SweepService/CancelSweep", Needs::kTrust},
    {"/tune.v1.SweepService/GetSweep", Needs::kReading},
    {"/tune.v1.SweepService/ListSweeps", Needs::kReading},
    {"/tune.v1.SweepService/ListTrials", Needs::kReading},
    {"/tune.v1.JobService/ListJobs", Needs::kReading},
    {"/tune.v1.JobService/GetJob", Needs::kReading},
    {"/tune.v1.JobService/WatchJob", Needs::kReading},
    {"/tune.v1.JobService/CancelJob", Needs::kTrust},
    {"/tune.v1.KernelService/ListKernels", Needs::kReading},
    {"/tune.v1.KernelService/GetKernel", Needs::kReading},
    {"/tune.v1.KernelService/CheckKernel", Needs::kTrust},
    {"/tune.v1.KernelService/DescribeSpace", Needs::kTrust},
    {"/tune.v1.KernelService/SampleSpace", Needs::kTrust},
    {"/tune.v1.DeviceService/ListDevices", Needs::kReading},
    {"/tune.v1.DeviceService/GetDevice", Needs::kReading},
    {"/tune.v1.DeviceService/MeasureCeilings", Needs::kTrust},
    {"/tune.v1.DeviceService/RetryDevice", Needs::kTrust},
    {"/tune.v1.ProfileService/RunProfile", Needs::kTrust},
    {"/tune.v1.ProfileService/ListProfiles", Needs::kReading},
    {"/tune.v1.ProfileService/Calibrate", Needs::kTrust},
    {"/tune.v1.ProfileService/GetCalibration", Needs::kReading},
    {"/tune.v1.RecordService/Lookup", Needs::kReading},
    {"/tune.v1.RecordService/ListRecords", Needs::kReading},
    {"/tune.v1.RecordService/Explain", Needs::kReading},
    {"/tune.v1.RecordService/ReadArtifact", Needs::kReading},
    {"/tune.v1.SnapshotService/ListSnapshots", Needs::kReading},
    {"/tune.v1.SnapshotService/ReadSnapshot", Needs::kReading},
    {"/tune.v1.SnapshotService/PinSnapshot", Needs::kTrust},
    {"/tune.v1.SnapshotService/UnpinSnapshot", Needs::kTrust},
    {"/tune.v1.SnapshotService/ImportSnapshot", Needs::kTrust},
    {"/tune.v1.SnapshotService/PruneSnapshots", Needs::kTrust},
    {"/tune.v1.BenchService/Measure", Needs::kTrust},
    {"/tune.v1.ReportService/GetRooflines", Needs::kReading},
    {"/tune.v1.ReportService/GetSweepReport", Needs::kReading},
    {"/tune.v1.ServerService/GetStatus", Needs::kReading},
    {"/tune.v1.CompareService/RunComparison", Needs::kTrust},
    {"/tune.v1.CompareService/AnswerPeer", Needs::kTrust},
    {"/tune.v1.CompareService/ListComparisons", Needs::kReading},
    {"/tune.v1.CompareService/GetComparison", Needs::kReading},
    {"/tune.v1.GateService/RunGate", Needs::kTrust},
    {"/tune.v1.GateService/ListGates", Needs::kReading},
    {"/tune.v1.GateService/GetGate", Needs::kReading},
    {"/tune.v1.GateService/RecomputeGate", Needs::kReading},
    {"/tune.v1.GateService/ResampleGate", Needs::kTrust},
    {"/tune.v1.GateService/SetBaseline", Needs::kTrust},
    {"/tune.v1.GateService/ListBaselines", Needs::kReading},
    {"/tune.v1.GateService/GetHistory", Needs::kReading},
    // tunectl serves these to itself; a daemon does not.
    {"/tune.v1.ReplayService/ListStrategies", Needs::kReading},
    {"/tune.v1.ReplayService/DescribeRecording", Needs::kTrust},
    {"/tune.v1.ReplayService/ConvertRecording", Needs::kTrust},
    {"/tune.v1.ReplayService/ReadPrior", Needs::kTrust},
    {"/tune.v1.ReplayService/Replay", Needs::kTrust},
    {"/tune.v1.ReplayService/CompareStrategies", Needs::kTrust},
};

// gRPC's own.
constexpr absl::string_view kForReading[] = {"/grpc.health.v1.Health/", "/grpc.reflection."};

class ReadersOnlyProcessor : public grpc::AuthMetadataProcessor {
 public:
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata*,
                       OutputMetadata*) override {
    auto path = metadata.find(":path");
    if (path != metadata.end() &&
        NeedsOf({path->second.data(), path->second.size()}) == Needs::kReading) {
      return grpc::Status::OK;
    }
    return grpc::Status(
        grpc::StatusCode::PERMISSION_DENIED,
        "this address takes no kernels and starts no work, because its clients show no "
        "certificate: start tunerd with --tls-ca, and give tunectl --tls-cert and --tls-key of "
        "that authority; or use the daemon's unix socket");
  }
};

}  // namespace

std::optional<Needs> NeedsOf(absl::string_view path) {
  for (const absl::string_view prefix : kForReading) {
    if (absl::StartsWith(path, prefix)) return Needs::kReading;
  }
  const auto call = std::find_if(std::begin(kCalls), std::end(kCalls),
                                 [&](const auto& line) { return line.first == path; });
  if (call == std::end(kCalls)) return std::nullopt;
  return call->second;
}

std::shared_ptr<grpc::AuthMetadataProcessor> ReadersOnly() {
  return std::make_shared<ReadersOnlyProcessor>();
}

}  // namespace tune::server
