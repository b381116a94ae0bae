// SPDX-License-Identifier: Apache-2.0
// tune-reference-numpy: runs references that are written in NumPy, with the Python that has it.
// Needs no GPU.
#include "server/worker/compile_worker.h"
#include "tuner/device/python/numpy_reference.h"

int main(int argc, char** argv) {
  return tune::server::RunCompileWorker(
      argc, argv, tune::server::WorkerRole::kInterpreter,
      {[](const tune::IncludeRoots&) { return tune::python::MakeNumpyReference(); }});
}
