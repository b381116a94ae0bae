// SPDX-License-Identifier: Apache-2.0
// The work of `kernel check`: parses a spec, builds its spaces, compiles variants. A mistake is a
// finding with its place.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/supervision/workers.h"
#include "tune/v1/catalogue.pb.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// The kernel as clients see it, with the spaces of a problem for each target it runs on. A space
// that cannot be built is left out.
v1::Kernel ToProto(const Kernel& kernel, const std::set<std::string>& targets,
                   const std::map<std::string, int64_t>& dims, const std::string& dtype,
                   SpaceSolver& solver, const Cancelled& cancelled);

using TellProgress = std::function<void(const v1::CheckProgress& progress)>;

struct CheckHooks {
  Cancelled cancelled;
  TellProgress progress;  // on any thread, one call at a time; may be empty
};

// `name_space`: the caller's. NOT_FOUND: no such kernel in the catalogue; INVALID_ARGUMENT: no such
// target; CANCELLED. Everything else is a finding.
absl::Status CheckKernel(const v1::CheckKernelRequest& request, const std::string& name_space,
                         const Catalogue& catalogue, Workers& workers, SpaceSolver& solver,
                         const CheckHooks& hooks, v1::CheckKernelResponse& response);

}  // namespace tune::server
