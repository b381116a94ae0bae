// SPDX-License-Identifier: Apache-2.0
// tune-device-cuda: runs variants on one GPU, the one of --ordinal N.
#include "server/worker/device_worker.h"
#include "tuner/device/cuda/cuda_runner.h"

int main(int argc, char** argv) {
  return tune::server::RunDeviceWorker(argc, argv, tune::server::WorkerRole::kAccelerator,
                                       [](int ordinal) { return tune::cuda::MakeRunner(ordinal); });
}
