// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/probe_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::embedded {
extern const std::string_view cuda_ceilings_source;
extern const std::string_view cuda_tensor_probes;
}  // namespace tune::embedded

namespace tune::cuda {
namespace {

constexpr int kRepeats = 5;
// Clocks recover from an earlier load within this time.
constexpr auto kRest = std::chrono::milliseconds(200);
constexpr int kRestedBursts = 3;
constexpr size_t kArrayBytesMax = size_t{2} << 30;
constexpr size_t kArrayBytesMin = size_t{64} << 20;
constexpr size_t kWordBytes = 16;
// A multiple of the words of any block, and of the pieces of a bulk copy.
constexpr size_t kTileBytes = 1024 * 8 * kWordBytes;
constexpr double kSecondsMin = 1.5e-3;
constexpr int kRoundsMax = 1 << 20;
constexpr int kRoundsFirst = 256;

// How often a probe moves the array.
int ArraysMoved(ProbeShape shape) {
  switch (shape) {
    case ProbeShape::kCopy:
    case ProbeShape::kBulkCopy:
    case ProbeShape::kDriverCopy:
      return 2;
    case ProbeShape::kTriad:
      return 3;
    case ProbeShape::kRead:
    case ProbeShape::kWrite:
    case ProbeShape::kMemset:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

CompilePlan CeilingsCompilePlan(const std::string& target, bool suite) {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "ceilings.cu";
  plan.source_text = std::string(embedded::cuda_ceilings_source);
  plan.headers = {{"tensor_probes.cuh", std::string(embedded::cuda_tensor_probes)}};
  if (suite) plan.defines = {{"TUNE_CEILING_SUITE", "1"}};
  plan.entries = {"tune_harness_ceiling_f32"};
  return plan;
}

absl::StatusOr<ProbeBench> ProbeBench::Create(const DeviceContext& context, Compiler& compiler,
                                              bool suite) {
  ProbeBench bench(context);
  bench.suite_ = suite;
  RETURN_IF_ERROR(bench.Load(compiler));
  for (CUevent& event : bench.events_) {
    RETURN_IF_ERROR(
        context.Check(context.driver.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  RETURN_IF_ERROR(bench.Allocate());
  return bench;
}

absl::Status ProbeBench::Load(Compiler& compiler) {
  ASSIGN_OR_RETURN(Artifact compiled,
                   compiler.Compile(CeilingsCompilePlan(TargetOf(context_->sm), suite_)));
  if (compiled.outcome != Outcome::kOk) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot compile the ceilings for ", context_->name, ": ", compiled.log));
  }
  const DriverApi& driver = context_->driver;
  RETURN_IF_ERROR(context_->Check(driver.cuModuleLoadData(&module_, compiled.binary.data()),
                                  "cuModuleLoadData"));
  if (!suite_) return absl::OkStatus();
  return context_->Check(driver.cuModuleGetFunction(&empty_, module_, "tune_ceiling_empty"),
                         "cuModuleGetFunction");
}

absl::Status ProbeBench::Allocate() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(
      context_->Check(context_->driver.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  const size_t bytes =
      std::min(kArrayBytesMax, free_bytes / (suite_ ? 6 : 4)) / kTileBytes * kTileBytes;
  if (bytes < kArrayBytesMin) {
    return absl::ResourceExhaustedError(absl::StrCat("only ", free_bytes >> 20, " MiB free on ",
                                                     context_->name, ": too little to measure"));
  }
  ASSIGN_OR_RETURN(in_, DeviceMemory::Allocate(*context_, bytes));
  ASSIGN_OR_RETURN(out_, DeviceMemory::Allocate(*context_, bytes));
  if (suite_) {
    ASSIGN_OR_RETURN(third_, DeviceMemory::Allocate(*context_, bytes));
  }
  ASSIGN_OR_RETURN(CUfunction randomise, Find("randomise"));
  for (const DeviceMemory* array : {&in_, &third_}) {
    if (array->bytes() == 0) continue;
    CUdeviceptr address = array->address();
    void* arguments[] = {&address};
    RETURN_IF_ERROR(LaunchFunction(randomise, static_cast<unsigned>(bytes / kWordBytes / 1024),
                                   1024, arguments));
  }
  return context_->Synchronize();
}

absl::StatusOr<CUfunction> ProbeBench::Find(const std::string& kernel) const {
  const std::string name = absl::StrCat("tune_harness_ceiling_", kernel);
  CUfunction function = nullptr;
  RETURN_IF_ERROR(
      context_->Check(context_->driver.cuModuleGetFunction(&function, module_, name.c_str()),
                      absl::StrCat("cuModuleGetFunction of ", name)));
  return function;
}

absl::Status ProbeBench::LaunchFunction(CUfunction function, unsigned blocks, unsigned threads,
                                        void** arguments) const {
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.hStream = context_->stream;
  return context_->Check(context_->driver.cuLaunchKernelEx(&config, function, arguments, nullptr),
                         "cuLaunchKernelEx");
}

absl::Status ProbeBench::Launch(const Probe& probe, int rounds) {
  const DriverApi& driver = context_->driver;
  if (probe.shape == ProbeShape::kDriverCopy) {
    return context_->Check(
        driver.cuMemcpyDtoDAsync(out_.address(), in_.address(), in_.bytes(), context_->stream),
        "cuMemcpyDtoDAsync");
  }
  if (probe.shape == ProbeShape::kMemset) {
    return context_->Check(
        driver.cuMemsetD8Async(out_.address(), 0x5a, out_.bytes(), context_->stream),
        "cuMemsetD8Async");
  }
  ASSIGN_OR_RETURN(CUfunction function, Find(probe.kernel));
  return ArraysMoved(probe.shape) > 0 ? LaunchMemory(probe, function, in_.bytes())
                                      : LaunchRounds(probe, function, rounds);
}

absl::Status ProbeBench::LaunchPart(const Probe& probe, size_t bytes) {
  ASSIGN_OR_RETURN(CUfunction function, Find(probe.kernel));
  return LaunchMemory(probe, function, std::min(bytes, in_.bytes()));
}

absl::Status ProbeBench::LaunchMemory(const Probe& probe, CUfunction function, size_t part_bytes) {
  CUdeviceptr in = in_.address();
  CUdeviceptr out = out_.address();
  CUdeviceptr third = third_.address();
  uint64_t bytes = part_bytes;
  unsigned value = 0x5a5a5a5a;
  if (probe.shape == ProbeShape::kBulkCopy) {
    void* arguments[] = {&in, &out, &bytes};
    return LaunchFunction(function, probe.blocks_per_sm * static_cast<unsigned>(context_->sm_count),
                          probe.threads, arguments);
  }
  const size_t block_bytes =
      static_cast<size_t>(probe.threads) * probe.words_per_thread * kWordBytes;
  const unsigned blocks = static_cast<unsigned>(part_bytes / block_bytes);
  void* triad[] = {&in, &third, &out};
  void* write[] = {&out, &value};
  void* copy[] = {&in, &out};  // a read's sink is where a copy goes
  void** arguments = probe.shape == ProbeShape::kTriad   ? triad
                     : probe.shape == ProbeShape::kWrite ? write
                                                         : copy;
  return LaunchFunction(function, blocks, probe.threads, arguments);
}

absl::Status ProbeBench::LaunchRounds(const Probe& probe, CUfunction function, int rounds) {
  const unsigned blocks = probe.blocks_per_sm * static_cast<unsigned>(context_->sm_count);
  CUdeviceptr in = in_.address();
  CUdeviceptr sink = out_.address();
  // The data that fits each half of a divided L2.
  uint64_t words = static_cast<uint64_t>(0.4 * context_->l2_bytes / kWordBytes);
  void* second_level[] = {&in, &words, &rounds, &sink};
  void* first_level[] = {&in, &rounds, &sink};
  void* none[] = {&rounds, &sink};
  void** arguments = probe.shape == ProbeShape::kSecondLevel  ? second_level
                     : probe.shape == ProbeShape::kFirstLevel ? first_level
                                                              : none;
  return LaunchFunction(function, blocks, probe.threads, arguments);
}

double ProbeBench::Work(const Probe& probe, int rounds) const {
  if (const int arrays = ArraysMoved(probe.shape); arrays > 0) {
    return static_cast<double>(in_.bytes()) * arrays;
  }
  return probe.work_per_round * rounds * probe.blocks_per_sm * context_->sm_count * probe.threads;
}

absl::StatusOr<double> ProbeBench::Time(const Probe& probe, int rounds) {
  const DriverApi& driver = context_->driver;
  RETURN_IF_ERROR(
      context_->Check(driver.cuEventRecord(events_[0], context_->stream), "cuEventRecord"));
  RETURN_IF_ERROR(Launch(probe, rounds));
  RETURN_IF_ERROR(
      context_->Check(driver.cuEventRecord(events_[1], context_->stream), "cuEventRecord"));
  RETURN_IF_ERROR(context_->Synchronize());
  float milliseconds = 0;
  RETURN_IF_ERROR(context_->Check(driver.cuEventElapsedTime(&milliseconds, events_[0], events_[1]),
                                  "cuEventElapsedTime"));
  if (milliseconds <= 0) {
    return absl::InternalError("events say that a ceiling kernel took no time");
  }
  return milliseconds * 1e-3;
}

absl::StatusOr<int> ProbeBench::ChooseRounds(const Probe& probe) {
  if (ArraysMoved(probe.shape) > 0) return 1;
  for (int rounds = kRoundsFirst;; rounds *= 4) {
    ASSIGN_OR_RETURN(double seconds, Time(probe, rounds));
    if (seconds >= kSecondsMin || rounds >= kRoundsMax) return rounds;
  }
}

absl::StatusOr<double> ProbeBench::Measure(const Probe& probe) {
  ASSIGN_OR_RETURN(const int rounds, ChooseRounds(probe));
  // Tensor cores alone reach the power limit within milliseconds, and the clocks that they leave
  // behind are the next probe's: one type's burst was 8 % apart in two sessions.
  const bool rests = suite_ && probe.kind == CeilingKind::kTensor;
  double best = 0;
  for (int burst = 0; burst < (rests ? kRestedBursts : 1); ++burst) {
    if (rests) std::this_thread::sleep_for(kRest);
    RETURN_IF_ERROR(Time(probe, rounds).status());
    for (int i = 0; i < kRepeats; ++i) {
      ASSIGN_OR_RETURN(double seconds, Time(probe, rounds));
      best = std::max(best, Work(probe, rounds) / seconds);
    }
  }
  return best;
}

absl::StatusOr<double> ProbeBench::MeasureSustained(const Probe& probe, double seconds) {
  ASSIGN_OR_RETURN(int rounds, ChooseRounds(probe));
  rounds = std::min(4 * rounds, kRoundsMax);  // fewer pauses for the host
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> rates;
  while (elapsed() < seconds) {
    ASSIGN_OR_RETURN(double taken, Time(probe, rounds));
    if (elapsed() >= 0.8 * seconds) rates.push_back(Work(probe, rounds) / taken);
  }
  if (rates.empty()) return absl::InvalidArgumentError("too short a load for a sustained figure");
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

absl::Status ProbeBench::CheckCopy() {
  ASSIGN_OR_RETURN(CUfunction differ, Find("differ"));
  ASSIGN_OR_RETURN(DeviceMemory count, DeviceMemory::Allocate(*context_, sizeof(uint64_t)));
  const DriverApi& driver = context_->driver;
  RETURN_IF_ERROR(
      context_->Check(driver.cuMemsetD8Async(count.address(), 0, count.bytes(), context_->stream),
                      "cuMemsetD8Async"));
  CUdeviceptr in = in_.address();
  CUdeviceptr out = out_.address();
  CUdeviceptr result = count.address();
  void* arguments[] = {&in, &out, &result};
  RETURN_IF_ERROR(LaunchFunction(differ, static_cast<unsigned>(in_.bytes() / kWordBytes / 1024),
                                 1024, arguments));
  uint64_t words = 0;
  RETURN_IF_ERROR(context_->Check(
      driver.cuMemcpyDtoHAsync(&words, count.address(), sizeof(words), context_->stream),
      "cuMemcpyDtoHAsync"));
  RETURN_IF_ERROR(context_->Synchronize());
  if (words == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a copy left ", words, " words uncopied"));
}

void ProbeBench::Unload() { context_->driver.cuModuleUnload(module_); }

}  // namespace tune::cuda
