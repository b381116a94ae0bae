// SPDX-License-Identifier: Apache-2.0
// Every worker of this host: its compilers, and a supervisor for each device. The daemon creates
// one Workers, which its services and its scheduler share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/supervision/compile_cache.h"
#include "server/supervision/compilers.h"
#include "server/supervision/control_groups.h"
#include "server/supervision/device_supervisor.h"
#include "server/supervision/limits.h"
#include "server/supervision/wall_book.h"
#include "tuner/device/include_roots.h"

namespace tune::server {

struct WorkersOptions {
  std::string state_dir;    // holds the compile cache and the workers' scratch folders
  std::string scratch_dir;  // holds the latter instead, where the state folder is another process's
  std::string worker_dir;   // where the workers' programs are; empty: see FindWorker
  std::string gpus_dir = "/proc/driver/nvidia/gpus";  // the driver has an entry of each GPU there
  Limits limits;
  IncludeRoots include_roots;     // that kernels may include from
  std::string triton_python;      // a Python that has Triton; empty: the first that is found
  std::string numpy_python;       // one that has NumPy; the same
  bool allow_weak_walls = false;  // kernels may run where walls are missing
  absl::Duration compile_deadline = absl::Seconds(60);
  absl::Duration prepare_deadline = absl::Seconds(60);
  absl::Duration run_deadline = absl::Seconds(10);
};

// Thread-safe. Starts no process before one is needed.
class Workers {
 public:
  static absl::StatusOr<std::unique_ptr<Workers>> Create(const WorkersOptions& options);

  // GPUs first, then "cpu". Devices that cannot be used are included; their status has the reason
  // once they were opened. A supervisor lives as long as this.
  std::vector<DeviceSupervisor*> devices() const;
  // Adds GPUs that the driver did not report before, as it may have been loaded after the start.
  void FindNewDevices();
  // The device of an id. An empty id gives the first GPU that opens, else the CPU (opened or not).
  // NOT_FOUND names the devices there are.
  absl::StatusOr<DeviceSupervisor*> FindDevice(const std::string& id);

  // A separate supervisor for counting on a device; its worker does not time. NOT_FOUND if there is
  // no such device; UNIMPLEMENTED if it has no counters; UNAVAILABLE if the program is not
  // installed.
  absl::StatusOr<std::unique_ptr<DeviceSupervisor>> MakeCountingSupervisor(const std::string& id);

  const Limits& limits() const { return options_.limits; }
  CompileCache& cache() { return *cache_; }
  const WallBook& walls() const { return *walls_; }
  // Why the memory of workers is watched; empty: control groups limit it.
  std::string watched_since() const { return std::string(groups_.status().message()); }
  const Compilers& compilers() const { return compilers_; }
  const IncludeRoots& include_roots() const { return options_.include_roots; }

 private:
  explicit Workers(WorkersOptions options)
      : options_(std::move(options)), groups_(ControlGroups::Claim()) {}
  ControlGroups* groups() const { return groups_.ok() ? groups_->get() : nullptr; }

  const WorkersOptions options_;
  const absl::StatusOr<std::unique_ptr<ControlGroups>> groups_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<WallBook> walls_;
  Compilers compilers_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<DeviceSupervisor>> devices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
