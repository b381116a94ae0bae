// SPDX-License-Identifier: Apache-2.0
// tune-count-cuda: reads hardware counters while variants run on one GPU, the one of --ordinal N.
// A program of its own, since a process that counts cannot time.
#include "server/worker/device_worker.h"
#include "tuner/device/cuda/cuda_runner.h"

int main(int argc, char** argv) {
  return tune::server::RunDeviceWorker(
      argc, argv, tune::server::WorkerRole::kCounter,
      [](int ordinal) { return tune::cuda::MakeCountingRunner(ordinal); });
}
