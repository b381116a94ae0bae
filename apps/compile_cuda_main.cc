// SPDX-License-Identifier: Apache-2.0
// tune-compile-cuda: compiles CUDA C++ and PTX for GPUs, reads cubins. Needs no GPU and no driver.
#include "server/worker/compile_worker.h"
#include "tuner/device/cuda/cubin_compiler.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/ptx_compiler.h"

int main(int argc, char** argv) {
  using tune::IncludeRoots;
  return tune::server::RunCompileWorker(
      argc, argv, tune::server::WorkerRole::kLibraryCompiler,
      {[](const IncludeRoots& roots) { return tune::cuda::MakeNvrtcCompiler(roots); },
       [](const IncludeRoots&) { return tune::cuda::MakePtxCompiler(); },
       [](const IncludeRoots&) { return tune::cuda::MakeCubinCompiler(); }});
}
