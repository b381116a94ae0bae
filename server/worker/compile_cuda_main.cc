// SPDX-License-Identifier: Apache-2.0
// tune-compile-cuda: compiles CUDA C++ and PTX for GPUs. Needs no GPU and no driver.
#include "server/worker/compile_worker.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/ptx_compiler.h"

int main(int argc, char** argv) {
  return tune::server::RunCompileWorker(argc, argv, tune::server::WorkerRole::kLibraryCompiler,
                                        {[] { return tune::cuda::MakeNvrtcCompiler(); },
                                         [] { return tune::cuda::MakePtxCompiler(); }});
}
