// SPDX-License-Identifier: Apache-2.0
// A compile worker: drives compilers for the daemon, one for each language. Arguments: --scratch
// DIR, the only folder it may write to and its TMPDIR; --include-root NAME=DIR, folders of headers
// that it may read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/worker_role.h"
#include "tuner/device/compiler.h"
#include "tuner/device/include_roots.h"

namespace tune::server {

using CompilerFactory =
    std::function<absl::StatusOr<std::unique_ptr<Compiler>>(const IncludeRoots& include_roots)>;

// The worker's main. A factory that fails is reported to the daemon, which asks for nothing more.
int RunCompileWorker(int argc, char** argv, WorkerRole role,
                     const std::vector<CompilerFactory>& factories);

}  // namespace tune::server
