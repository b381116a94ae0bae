// SPDX-License-Identifier: Apache-2.0
// tune-device-cpu: runs variants on this host's CPU.
#include "base/status_macros.h"
#include "server/worker/device_worker.h"
#include "tuner/device/cpu/cpu_runner.h"
#include "tuner/device/cpu/loaded_program.h"

namespace {

// Units of a reference, a checker and a variant.
constexpr int kLibrariesMax = 24;
constexpr int64_t kLibraryBytesMax = int64_t{32} << 20;  // the most that tunerd takes of a compiler

absl::StatusOr<std::unique_ptr<tune::Runner>> MakeRunner() {
  RETURN_IF_ERROR(tune::cpu::ReserveMemoryFiles(kLibrariesMax, kLibraryBytesMax));
  return tune::cpu::MakeRunner();
}

}  // namespace

int main(int argc, char** argv) {
  return tune::server::RunDeviceWorker(argc, argv, tune::server::WorkerRole::kHostDevice,
                                       [](int) { return MakeRunner(); });
}
