// SPDX-License-Identifier: Apache-2.0
#include "server/workload/keep_kernels.h"

#include <set>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/workload/workload.h"

namespace tune::server {

KeepSources KeepKernels(std::vector<NamedKernel> kernels, const Principal& principal,
                        const Principals& principals, db::Store& store) {
  return [kernels = std::move(kernels), principal, &principals, &store]() -> absl::Status {
    std::set<std::string> kept;
    for (const NamedKernel& named : kernels) {
      if (named.kernel->origin() == kOperatorsOrigin) continue;
      if (!kept.insert(named.kernel->hash()).second) continue;
      RETURN_IF_ERROR(principals.KeepKernel(principal, ToRow(named), store));
    }
    return absl::OkStatus();
  };
}

}  // namespace tune::server
