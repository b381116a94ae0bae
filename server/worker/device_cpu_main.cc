// SPDX-License-Identifier: Apache-2.0
// tune-device-cpu: runs variants on this host's CPU.
#include "server/worker/device_worker.h"
#include "tuner/device/cpu/cpu_runner.h"

int main(int argc, char** argv) {
  return tune::server::RunDeviceWorker(argc, argv, tune::server::WorkerRole::kHostDevice,
                                       [](int) { return tune::cpu::MakeRunner(); });
}
