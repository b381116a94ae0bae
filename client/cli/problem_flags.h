// SPDX-License-Identifier: Apache-2.0
// The flags of commands about a problem, that is, a kernel with dims, a data type and a device, and
// the fields of requests that they set.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/cli/session.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {

struct ProblemFlags {
  KernelChoice kernel;
  std::string dtype;
  std::string device;
  // For commands that measure.
  uint64_t seed = 1;
  bool warm = false;
};

// Sets the dims, the data type and the device. INVALID_ARGUMENT: a dim that is no number.
template <typename Request>
absl::Status SetProblem(const Session& session, const ProblemFlags& flags, Request& request) {
  ASSIGN_OR_RETURN(const auto dims, ParseDims(session.dims));
  request.mutable_dims()->insert(dims.begin(), dims.end());
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  return absl::OkStatus();
}

// Sets the problem, the seed and the cache mode of a measurement.
template <typename Request>
absl::Status SetMeasured(const Session& session, const ProblemFlags& flags, Request& request) {
  request.set_seed(flags.seed);
  request.set_cache_mode(flags.warm ? v1::CACHE_MODE_WARM : v1::CACHE_MODE_COLD);
  return SetProblem(session, flags, request);
}

// A question to the records, as best, explain and history ask it; `Request` has the fields of
// LookupRequest. INVALID_ARGUMENT: not one kernel, or a dim that is no number.
template <typename Request>
absl::StatusOr<Request> MakeQuestion(const Session& session, const ProblemFlags& flags) {
  Request request;
  ASSIGN_OR_RETURN(const std::string kernel, OneKernel(flags.kernel));
  ASSIGN_OR_RETURN(*request.mutable_kernel_name(), KernelName(kernel));
  RETURN_IF_ERROR(SetProblem(session, flags, request));
  return request;
}

// Sets kernel_name, or kernel_source if `kernel` is the path of a spec. Returns the kernel's name,
// which is empty for a spec that does not parse: the server says where it is wrong.
// INVALID_ARGUMENT: it is a dim, or the spec's files cannot be read.
template <typename Request>
absl::StatusOr<std::string> SetKernel(const std::string& kernel, Request& request) {
  RETURN_IF_ERROR(CheckIsNoDim(kernel));
  if (!IsSpecPath(kernel)) {
    request.set_kernel_name(kernel);
    return kernel;
  }
  ASSIGN_OR_RETURN(KernelFiles files, ReadKernelFiles(kernel));
  *request.mutable_kernel_source() = std::move(files.source);
  return files.spec.name();
}

}  // namespace tune::client
