// SPDX-License-Identifier: Apache-2.0
// A compile worker: drives one Compiler for the daemon. Arguments: --scratch DIR, the only folder
// it may write to and its TMPDIR.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"

namespace tune::server {

using CompilerFactory = std::function<absl::StatusOr<std::unique_ptr<Compiler>>()>;

enum class CompilerKind {
  kProgram,  // starts the system's compiler
  kLibrary,  // compiles in this process, with libraries that are known once it is made
};

// The worker's main. A factory that fails is reported to the daemon, which asks for nothing more.
int RunCompileWorker(int argc, char** argv, CompilerKind kind, const CompilerFactory& factory);

}  // namespace tune::server
