// SPDX-License-Identifier: Apache-2.0
#include "server/access/access.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tune::server {
namespace {

using db::Role;

constexpr std::pair<absl::string_view, Role> kCalls[] = {
    {"/tune.v1.SweepService/SubmitSweep", Role::kSubmitter},
    {"/tune.v1.SweepService/WatchSweep", Role::kReader},
    {"/tune.v1.SweepService/CancelSweep", Role::kSubmitter},
    {"/tune.v1.SweepService/GetSweep", Role::kReader},
    {"/tune.v1.SweepService/ListSweeps", Role::kReader},
    {"/tune.v1.SweepService/ListTrials", Role::kReader},
    {"/tune.v1.JobService/ListJobs", Role::kReader},
    {"/tune.v1.JobService/GetJob", Role::kReader},
    {"/tune.v1.JobService/WatchJob", Role::kReader},
    {"/tune.v1.JobService/CancelJob", Role::kSubmitter},
    {"/tune.v1.JobService/CancelJobs", Role::kSubmitter},
    {"/tune.v1.KernelService/ListKernels", Role::kReader},
    {"/tune.v1.KernelService/GetKernel", Role::kReader},
    {"/tune.v1.KernelService/CheckKernel", Role::kSubmitter},
    {"/tune.v1.KernelService/DescribeSpace", Role::kSubmitter},
    {"/tune.v1.KernelService/SampleSpace", Role::kSubmitter},
    {"/tune.v1.DeviceService/ListDevices", Role::kReader},
    {"/tune.v1.DeviceService/GetDevice", Role::kReader},
    {"/tune.v1.DeviceService/MeasureCeilings", Role::kSubmitter},
    {"/tune.v1.DeviceService/RetryDevice", Role::kOperator},
    {"/tune.v1.ProfileService/RunProfile", Role::kSubmitter},
    {"/tune.v1.ProfileService/ListProfiles", Role::kReader},
    {"/tune.v1.ProfileService/Calibrate", Role::kSubmitter},
    {"/tune.v1.ProfileService/GetCalibration", Role::kReader},
    {"/tune.v1.RecordService/Lookup", Role::kReader},
    {"/tune.v1.RecordService/LookupMany", Role::kReader},
    {"/tune.v1.RecordService/RecordMisses", Role::kSubmitter},
    {"/tune.v1.RecordService/ListRecords", Role::kReader},
    {"/tune.v1.RecordService/Explain", Role::kReader},
    {"/tune.v1.RecordService/ReadArtifact", Role::kReader},
    {"/tune.v1.SnapshotService/ListSnapshots", Role::kReader},
    {"/tune.v1.SnapshotService/ReadSnapshot", Role::kReader},
    {"/tune.v1.SnapshotService/PinSnapshot", Role::kOperator},
    {"/tune.v1.SnapshotService/UnpinSnapshot", Role::kOperator},
    {"/tune.v1.SnapshotService/ImportSnapshot", Role::kOperator},
    {"/tune.v1.SnapshotService/ImportArtifact", Role::kOperator},
    {"/tune.v1.SnapshotService/PruneSnapshots", Role::kOperator},
    {"/tune.v1.BenchService/Measure", Role::kSubmitter},
    {"/tune.v1.ReportService/GetRooflines", Role::kReader},
    {"/tune.v1.ReportService/GetFusionReport", Role::kReader},
    {"/tune.v1.ReportService/GetSweepReport", Role::kReader},
    {"/tune.v1.ServerService/GetStatus", Role::kReader},
    {"/tune.v1.ServerService/ClearCompileCache", Role::kOperator},
    {"/tune.v1.ServerService/PruneJobs", Role::kOperator},
    {"/tune.v1.CompareService/RunComparison", Role::kSubmitter},
    {"/tune.v1.CompareService/AnswerPeer", Role::kSubmitter},
    {"/tune.v1.CompareService/ListComparisons", Role::kReader},
    {"/tune.v1.CompareService/GetComparison", Role::kReader},
    {"/tune.v1.GateService/RunGate", Role::kSubmitter},
    {"/tune.v1.GateService/ListGates", Role::kReader},
    {"/tune.v1.GateService/GetGate", Role::kReader},
    {"/tune.v1.GateService/RecomputeGate", Role::kReader},
    {"/tune.v1.GateService/ResampleGate", Role::kSubmitter},
    {"/tune.v1.GateService/SetBaseline", Role::kOperator},
    {"/tune.v1.GateService/ListBaselines", Role::kReader},
    {"/tune.v1.GateService/GetHistory", Role::kReader},
    {"/tune.v1.TokenService/CreateToken", Role::kOperator},
    {"/tune.v1.TokenService/ListTokens", Role::kOperator},
    {"/tune.v1.TokenService/RevokeToken", Role::kOperator},
    // tunectl serves these to itself; a daemon does not.
    {"/tune.v1.ReplayService/ListStrategies", Role::kReader},
    {"/tune.v1.ReplayService/DescribeRecording", Role::kSubmitter},
    {"/tune.v1.ReplayService/ConvertRecording", Role::kSubmitter},
    {"/tune.v1.ReplayService/ReadPrior", Role::kSubmitter},
    {"/tune.v1.ReplayService/Replay", Role::kSubmitter},
    {"/tune.v1.ReplayService/CompareStrategies", Role::kSubmitter},
};

}  // namespace

std::optional<Role> RoleFor(absl::string_view path) {
  const auto call = std::find_if(std::begin(kCalls), std::end(kCalls),
                                 [&](const auto& line) { return line.first == path; });
  if (call == std::end(kCalls)) return std::nullopt;
  return call->second;
}

}  // namespace tune::server
