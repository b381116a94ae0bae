// SPDX-License-Identifier: Apache-2.0
// tune-compile-cpu: compiles variants for the CPU device with the system's C++ compiler.
#include "server/worker/compile_worker.h"
#include "tuner/device/cpu/cpu_compiler.h"

int main(int argc, char** argv) {
  return tune::server::RunCompileWorker(argc, argv, tune::server::WorkerRole::kProgramCompiler,
                                        {tune::cpu::MakeCompiler});
}
