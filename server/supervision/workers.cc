// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/workers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/worker/host_memory.h"
#include "server/worker/scratch.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

constexpr char kDriverCache[] = "driver-cache";
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
// A compiler driver, a compiler, an assembler and a linker with its plugin.
constexpr int kCompilerProcesses = 16;
constexpr int64_t kCompilerResidentBytes = 4 * kGiB;
constexpr int64_t kCompilerScratchBytes = 256 * kMiB;
constexpr int64_t kDriverScratchBytes = kGiB;
// Each process of a compiler may start a thread for every processor of a large host.
constexpr int kCompilerThreads = 4096;
// Free space left to the store; on a disk of less than ten times this, a tenth of the disk.
constexpr int64_t kFreeDiskBytes = kGiB;
// Limits of a reference on the host: its results, and these with its inputs as files.
constexpr int64_t kResultBytesMax = 192 * kMiB;
constexpr int64_t kReferenceScratchBytes = 2 * kGiB;
// Stacks of a block's threads, shared arrays, a copy of the largest output.
constexpr int64_t kHostHeadroomBytes = 4 * kGiB;

// The programs that compile: for the host or for GPUs, and of which languages.
struct CompilerProgram {
  const char* name;
  bool for_host;
  std::vector<Language> languages;
  // Its workers make the second of the languages of the first, in processes that do nothing else:
  // sources that run to be compiled never meet what compiles others.
  bool has_front_end = false;
  bool searches = false;         // for a Python, when it starts
  int64_t binary_bytes_max = 0;  // of what it makes; 0: the daemon's limit
};

const std::vector<CompilerProgram>& CompilerPrograms() {
  static const auto* const kPrograms = new std::vector<CompilerProgram>{
      {"tune-compile-cpu", /*for_host=*/true, {Language::kCuda}},
      {"tune-compile-cuda",
       /*for_host=*/false,
       {Language::kCuda, Language::kPtx, Language::kCubin}},
      {"tune-compile-triton",
       /*for_host=*/false,
       {Language::kTriton, Language::kTtir},
       /*has_front_end=*/true,
       /*searches=*/true},
      {"tune-reference-numpy",
       /*for_host=*/true,
       {Language::kNumpy},
       /*has_front_end=*/false,
       /*searches=*/true,
       /*binary_bytes_max=*/kResultBytesMax},
  };
  return *kPrograms;
}

// The text behind `Model:` in the driver's file of a GPU; empty if there is no such file or line.
std::string ModelOf(const fs::path& gpu_dir) {
  std::ifstream file(gpu_dir / "information");
  for (std::string line; std::getline(file, line);) {
    absl::string_view text = line;
    if (absl::ConsumePrefix(&text, "Model:")) return std::string(absl::StripAsciiWhitespace(text));
  }
  return "";
}

struct FoundGpus {
  int count = 0;
  std::string model;  // of all; empty: not known, or not one. Which of several has an id is CUDA's
};

// Asking the driver itself would take a worker.
FoundGpus FindGpus(const std::string& gpus_dir) {
  FoundGpus found;
  std::set<std::string> models;
  std::error_code error;
  for (fs::directory_iterator it(gpus_dir, error), end; !error && it != end; it.increment(error)) {
    ++found.count;
    models.insert(ModelOf(it->path()));
  }
  if (models.size() == 1) found.model = *models.begin();
  return found;
}

// A front end has a tenth of a compile's work, and each of its workers takes a second to start.
// There are at least two, so that one source that hangs does not delay all others.
int FrontWorkers(const Limits& limits) {
  return std::min(limits.compile_workers, std::max(2, limits.compile_workers / 4));
}

int64_t FreeDiskToKeep(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::space_info disk = fs::space(folder, error);
  return error ? kFreeDiskBytes
               : std::min(kFreeDiskBytes, static_cast<int64_t>(disk.capacity / 10));
}

// Bounds the workers.
struct Enclosure {
  WallBook* walls;
  ControlGroups* groups;  // may be null
};

// `scratch`: the name of its workers' folder.
std::unique_ptr<CompilePool> MakePool(const WorkersOptions& options,
                                      const CompilerProgram& compiler, const std::string& program,
                                      const std::string& scratch, int worker_count,
                                      CompileCache* cache, const Enclosure& enclosure) {
  CompilePoolOptions pool;
  pool.command.program = program;
  if (!options.numpy_python.empty()) {
    pool.command.environment.push_back("TUNE_NUMPY_PYTHON=" + options.numpy_python);
  }
  if (!options.triton_python.empty()) {
    pool.command.environment.push_back("TUNE_TRITON_PYTHON=" + options.triton_python);
  }
  pool.scratch_dir = absl::StrCat(options.scratch_dir, "/", scratch);
  pool.workers = worker_count;
  const bool makes_results = compiler.binary_bytes_max > 0;
  pool.binary_bytes_max = makes_results ? compiler.binary_bytes_max : options.limits.binary_bytes;
  pool.log_bytes_max = options.limits.log_bytes;
  pool.include_roots = options.include_roots;
  pool.cache = cache;
  pool.walls = enclosure.walls;
  pool.command.groups = enclosure.groups;
  pool.command.limits = {
      .resident_bytes = kCompilerResidentBytes,
      .processes = kCompilerProcesses,
      .threads = kCompilerThreads,
      .scratch_bytes = makes_results ? kReferenceScratchBytes : kCompilerScratchBytes,
      .free_disk_bytes = FreeDiskToKeep(options.scratch_dir)};
  pool.deadline = options.compile_deadline;
  return std::make_unique<CompilePool>(std::move(pool));
}

std::unique_ptr<DeviceSupervisor> MakeSupervisor(const WorkersOptions& options,
                                                 const Enclosure& enclosure, const std::string& id,
                                                 const std::string& scratch,
                                                 const std::string& program,
                                                 std::vector<std::string> args,
                                                 const std::string& model = "") {
  DeviceSupervisorOptions supervisor;
  supervisor.id = id;
  supervisor.model = model;
  supervisor.command.program = program;
  supervisor.command.args = std::move(args);
  supervisor.scratch_dir = absl::StrCat(options.scratch_dir, "/", scratch);
  supervisor.walls = enclosure.walls;
  supervisor.command.groups = enclosure.groups;
  supervisor.command.limits.resident_bytes = MemoryBytes() / 4 * 3;
  const DeviceProfile& profile = ProfileOfDevice(id);
  if (profile.is_host) {
    supervisor.runs_foreign_code = true;
    supervisor.headroom_bytes = std::min(kHostHeadroomBytes, MemoryBytes() / 4);
  } else {
    supervisor.command.limits.scratch_dir = supervisor.scratch_dir;
    supervisor.command.limits.scratch_bytes = kDriverScratchBytes;
    supervisor.command.limits.free_disk_bytes = FreeDiskToKeep(options.scratch_dir);
    // Keeps the code that the driver compiles itself from one worker to the next.
    supervisor.command.environment.push_back(
        absl::StrCat("CUDA_CACHE_PATH=", options.scratch_dir, "/", kDriverCache));
  }
  supervisor.prepare_deadline = options.prepare_deadline;
  supervisor.run_deadline = profile.run_deadline_factor * options.run_deadline;
  return std::make_unique<DeviceSupervisor>(std::move(supervisor));
}

std::unique_ptr<DeviceSupervisor> MakeGpuSupervisor(const WorkersOptions& options,
                                                    const Enclosure& enclosure, int ordinal,
                                                    const std::string& program,
                                                    const std::string& model) {
  const std::string id = DeviceIdOf(ordinal);
  return MakeSupervisor(options, enclosure, id, id, program, {"--ordinal", absl::StrCat(ordinal)},
                        model);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Workers>> Workers::Create(const WorkersOptions& given) {
  WorkersOptions options = given;
  std::error_code error;
  options.state_dir = fs::absolute(given.state_dir, error).string();
  const bool shares_state = !given.scratch_dir.empty();
  if (!shares_state) options.scratch_dir = options.state_dir + "/scratch";
  Limits& limits = options.limits;
  if (limits.compile_workers <= 0) {
    limits.compile_workers =
        CompileWorkersThatFit(static_cast<int>(std::thread::hardware_concurrency()),
                              UsableMemoryBytes(), limits.compile_worker_bytes);
  }
  // Removes the folders that workers of a killed daemon left. No other process uses this folder.
  for (fs::directory_iterator it(options.scratch_dir, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename() != kDriverCache) RemoveFolder(it->path());
  }
  std::unique_ptr<Workers> workers(new Workers(options));
  absl::StatusOr<std::unique_ptr<CompileCache>> cache =
      CompileCache::Open(options.state_dir + "/compile-cache", limits.cache_bytes);
  if (!cache.ok() && shares_state) {  // what may not be written to is done without
    cache = CompileCache::Open(options.scratch_dir + "/compile-cache", limits.cache_bytes);
  }
  ASSIGN_OR_RETURN(workers->cache_, std::move(cache));
  workers->walls_ = std::make_unique<WallBook>(
      (shares_state ? options.scratch_dir : options.state_dir) + "/walls",
      options.allow_weak_walls);
  fs::create_directories(absl::StrCat(options.scratch_dir, "/", kDriverCache), error);
  const Enclosure enclosure = {workers->walls_.get(), workers->groups()};
  // A build without CUDA has no CUDA workers, and so no CUDA devices. The CPU's are always listed;
  // a use of them reports if they are not installed.
  const auto find = [&](const char* name) { return FindWorker(name, options.worker_dir); };
  for (const CompilerProgram& compiler : CompilerPrograms()) {
    absl::StatusOr<std::string> program = find(compiler.name);
    if (!program.ok() && !compiler.for_host) continue;
    const auto pool = [&](const std::string& scratch, int worker_count) {
      return MakePool(options, compiler, program.value_or(compiler.name), scratch, worker_count,
                      workers->cache_.get(), enclosure);
    };
    const std::string front = absl::StrCat(compiler.name, "-front");
    workers->compilers_.Add(
        {.for_host = compiler.for_host,
         .searches = compiler.searches,
         .languages = compiler.languages,
         .pool = pool(compiler.name, limits.compile_workers),
         .front = compiler.has_front_end ? pool(front, FrontWorkers(limits)) : nullptr});
  }
  workers->FindNewDevices();
  const std::string host(DeviceProfiles().back()->family);
  MutexLock lock(workers->mutex_);
  workers->devices_.push_back(MakeSupervisor(
      options, enclosure, host, host, find("tune-device-cpu").value_or("tune-device-cpu"), {}));
  return workers;
}

std::vector<DeviceSupervisor*> Workers::devices() const {
  MutexLock lock(mutex_);
  std::vector<DeviceSupervisor*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  return devices;
}

void Workers::FindNewDevices() {
  const absl::StatusOr<std::string> program = FindWorker("tune-device-cuda", options_.worker_dir);
  if (!program.ok()) return;  // a build without CUDA
  MutexLock lock(mutex_);
  int known = 0;
  for (const auto& device : devices_) known += OrdinalOf(device->id()).has_value() ? 1 : 0;
  const FoundGpus found = FindGpus(options_.gpus_dir);
  // Adds one even without a driver: its status says what is missing.
  for (int i = known; i < std::max(1, found.count); ++i) {
    devices_.insert(devices_.begin() + i, MakeGpuSupervisor(options_, {walls_.get(), groups()}, i,
                                                            *program, found.model));
  }
}

absl::StatusOr<DeviceSupervisor*> Workers::FindDevice(const std::string& id) {
  const std::vector<DeviceSupervisor*> devices = this->devices();
  for (DeviceSupervisor* device : devices) {
    if (id == device->id()) return device;
    if (id.empty() && (ProfileOfDevice(device->id()).is_host || device->Open().ok())) return device;
  }
  return absl::NotFoundError(absl::StrCat(
      "no device '", id, "'; there are: ",
      absl::StrJoin(devices, ", ", [](std::string* out, const DeviceSupervisor* device) {
        absl::StrAppend(out, device->id());
      })));
}

absl::StatusOr<std::unique_ptr<DeviceSupervisor>> Workers::MakeCountingSupervisor(
    const std::string& id) {
  RETURN_IF_ERROR(FindDevice(id).status());
  const std::optional<int> ordinal = OrdinalOf(id);
  if (!ordinal) {
    return absl::UnimplementedError(absl::StrCat(
        "device ", id, " has no counters that tunectl reads: declared bytes and times only"));
  }
  absl::StatusOr<std::string> program = FindWorker("tune-count-cuda", options_.worker_dir);
  if (!program.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the program that counts is not there: ", program.status().message()));
  }
  return MakeSupervisor(options_, {walls_.get(), groups()}, id, absl::StrCat(id, "-counting"),
                        *program, {"--ordinal", absl::StrCat(*ordinal)});
}

}  // namespace tune::server
