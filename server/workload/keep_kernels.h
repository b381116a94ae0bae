// SPDX-License-Identifier: Apache-2.0
// Stores the sources of a job, once it has its place.
#pragma once

#include <vector>

#include "db/store.h"
#include "server/access/principals.h"
#include "server/jobs/scheduler.h"
#include "server/kernels/catalogue.h"

namespace tune::server {

// Stores the kernels that a principal brought, within the principal's quota. Kernels of the
// catalogue are nobody's. The principals and the store must outlive the result.
KeepSources KeepKernels(std::vector<NamedKernel> kernels, const Principal& principal,
                        const Principals& principals, db::Store& store);

}  // namespace tune::server
