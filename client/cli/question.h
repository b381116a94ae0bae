// SPDX-License-Identifier: Apache-2.0
// What best, explain and history ask about: a kernel with dims, a data type and a device.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/session.h"

namespace tune::client {

inline constexpr char kQuestionDeviceHelp[] =
    "Device name, id or kind (cuda, cpu); by default this host's";

struct QuestionFlags {
  KernelChoice kernel;
  std::string dtype;
  std::string device;
};

// `Request` has the fields of LookupRequest. INVALID_ARGUMENT: not one kernel, or a dim that is no
// number.
template <typename Request>
absl::StatusOr<Request> MakeQuestion(const Session& session, const QuestionFlags& flags) {
  Request request;
  ASSIGN_OR_RETURN(const std::string kernel, OneKernel(flags.kernel));
  ASSIGN_OR_RETURN(*request.mutable_kernel_name(), KernelName(kernel));
  ASSIGN_OR_RETURN(const auto dims, ParseDims(session.dims));
  request.mutable_dims()->insert(dims.begin(), dims.end());
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  return request;
}

}  // namespace tune::client
