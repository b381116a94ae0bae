// SPDX-License-Identifier: Apache-2.0
// tune-compile-triton: compiles kernels written in Triton, with the Python that has it. Needs no
// GPU and no driver. A worker that is given sources runs them; the daemon gives it nothing else.
#include "base/status_macros.h"
#include "server/worker/compile_worker.h"
#include "tuner/device/triton/installation.h"
#include "tuner/device/triton/triton_compiler.h"

namespace {

using tune::Compiler;
using Maker = std::unique_ptr<Compiler> (*)(tune::triton::Installation, std::string);

absl::StatusOr<std::unique_ptr<Compiler>> Make(Maker maker) {
  static const auto* const kFound =
      new absl::StatusOr<tune::triton::Installation>(tune::triton::FindTriton());
  if (!kFound->ok()) return kFound->status();
  return maker(**kFound, "");
}

}  // namespace

int main(int argc, char** argv) {
  return tune::server::RunCompileWorker(
      argc, argv, tune::server::WorkerRole::kInterpreter,
      {[](const tune::IncludeRoots&) { return Make(tune::triton::MakeFrontEnd); },
       [](const tune::IncludeRoots&) { return Make(tune::triton::MakeTtirCompiler); }});
}
