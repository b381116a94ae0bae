// SPDX-License-Identifier: Apache-2.0
// A workload: a kernel, a problem and a device. The names of a request are resolved here, in the
// same way and with the same errors for every kind of job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/kernel_store.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "tune/v1/kernel.pb.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

using Dims = std::map<std::string, int64_t>;

// The `device` of a request for the first free one of those like the default.
inline constexpr char kAnyDevice[] = "any";

// Whether keys take two devices for one.
bool AreAlike(const DeviceInfo& a, const DeviceInfo& b);

// The device that a request is for.
struct DeviceChoice {
  DeviceView view;  // the preferred one
  // Ids that the work may run on, the preferred first: several if the request says "any", a name or
  // a kind.
  std::vector<std::string> ids;
  TargetTraits traits;
};

// The device that a request's `device` names, whether or not it can be used: an id, a name or a
// kind
// ("cuda"); empty or "any": the default, the first GPU that can be used, else the CPU. Waits until
// the devices are known. NOT_FOUND names the devices there are.
absl::StatusOr<DeviceView> NamedDevice(const std::string& device, const Devices& devices,
                                       absl::Time deadline, const Cancelled& cancelled = {});

// Chooses a device to work on. For "any", the choice has all devices like the default (name, target
// and driver), for a name or a kind those like the first that has it, whichever is free
// first. Errors as NamedDevice; FAILED_PRECONDITION: it cannot be
// used, and why.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device, const Devices& devices,
                                          absl::Time deadline, const Cancelled& cancelled = {});

// The names in a request. The kernel is one of the catalogue or comes with the request.
struct WorkloadRequest {
  std::string kernel_name;
  const v1::KernelSource* kernel_source = nullptr;  // of the request
  Dims dims;
  std::string dtype;
  std::string device;
  std::optional<std::string> name_space;  // as ParseKernelSource takes it
};

// Reads any message that has the fields kernel_name, kernel_source, dims, dtype and device.
template <typename Request>
WorkloadRequest WorkloadOf(const Request& request,
                           const std::optional<std::string>& name_space = std::nullopt) {
  return {.kernel_name = request.kernel_name(),
          .kernel_source = request.has_kernel_source() ? &request.kernel_source() : nullptr,
          .dims = {request.dims().begin(), request.dims().end()},
          .dtype = request.dtype(),
          .device = request.device(),
          .name_space = name_space};
}

struct Workload {
  NamedKernel named;
  Problem problem;
  DeviceChoice device;
  ProblemPlan plan;

  const Kernel& kernel() const { return *named.kernel; }
  const TargetTraits& traits() const { return device.traits; }
  // "softmax rows=8192 cols=4096 bf16".
  std::string Subject() const;
};

// NOT_FOUND: no such kernel or device. INVALID_ARGUMENT: the source (file, line, column), or, with
// the reason PROBLEM_INVALID, a dim, the dtype, a problem that cannot be planned, or a kernel that
// does not run on the device's target. FAILED_PRECONDITION as ChooseDevice.
absl::StatusOr<Workload> ResolveWorkload(const WorkloadRequest& request, const Catalogue& catalogue,
                                         const Devices& devices, absl::Time deadline,
                                         const Cancelled& cancelled = {});
// Resolves the kernel alone.
absl::StatusOr<NamedKernel> ResolveKernel(const WorkloadRequest& request,
                                          const Catalogue& catalogue);
// Resolves a problem of a kernel and a device that were resolved before.
absl::StatusOr<Workload> ResolveWorkload(NamedKernel named, const Dims& dims,
                                         const std::string& dtype, const DeviceChoice& device);

// Completes a config that gives some params; the others take their defaults. A value is converted
// to its param's kind: 1 to true, 2 to 2.0. An empty config gives the default config, which must be
// valid. INVALID_ARGUMENT: no such param, a value that it does not have, or no config of the space.
absl::StatusOr<Config> CompleteConfig(const Workload& workload, const Config& given);

// Memory that the sources of a kernel take while a job holds them.
size_t SourceBytesOf(const Kernel& kernel);

// The kernel as the store keeps it.
db::KernelRow ToRow(const NamedKernel& named);

}  // namespace tune::server
