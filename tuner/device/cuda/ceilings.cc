// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "tuner/status_macros.h"

namespace tune::embedded {
extern const std::string_view cuda_ceilings_source;
}  // namespace tune::embedded

namespace tune::cuda {
namespace {

constexpr int kRepeats = 5;
constexpr size_t kArrayBytesMax = size_t{2} << 30;
constexpr size_t kArrayBytesMin = size_t{64} << 20;
constexpr size_t kWordBytes = 16;
// A multiple of the words of any block below.
constexpr size_t kTileBytes = 1024 * 8 * kWordBytes;

// One way to run into a ceiling.
struct Probe {
  const char* ceiling;
  const char* kernel;
  unsigned threads;
  unsigned words_per_thread;  // memory probes; the grid covers the array
  unsigned blocks_per_sm;     // compute probes
  double flops_per_round;     // of a thread
};

// A round of the multiply-add kernels is 64 of them; of the tensor kernels, sixteen products of
// 64 x 256 x 16 a warpgroup on sm_90, else eight of 16 x 8 x 16 a warp.
constexpr double kFlopsPerRound = 2.0 * 64;
constexpr double kWgmmaFlopsPerRound = 16.0 * 2 * 64 * 256 * 16 / 128;
constexpr double kMmaFlopsPerRound = 8.0 * 2 * 16 * 8 * 16 / 32;

std::vector<Probe> ProbesFor(int sm) {
  std::vector<Probe> probes;
  for (unsigned threads : {256u, 512u, 1024u}) {
    probes.push_back({"dram_copy", "copy_1", threads, 1});
    probes.push_back({"dram_copy", "copy_2", threads, 2});
    probes.push_back({"dram_copy", "copy_4", threads, 4});
    probes.push_back({"dram_copy", "copy_8", threads, 8});
    probes.push_back({"dram_read", "read_2", threads, 2});
    probes.push_back({"dram_read", "read_4", threads, 4});
    probes.push_back({"dram_read", "read_8", threads, 8});
  }
  for (unsigned blocks : {4u, 8u}) {
    probes.push_back({"f64", "f64", 256, 0, blocks, kFlopsPerRound});
    probes.push_back({"f32", "f32", 256, 0, blocks, kFlopsPerRound});
    probes.push_back({"f16", "f16", 256, 0, blocks, 2 * kFlopsPerRound});
  }
  if (sm == 90) {
    probes.push_back({"tensor_bf16", "tensor_bf16", 256, 0, 1, kWgmmaFlopsPerRound});
    probes.push_back({"tensor_f16", "tensor_f16", 256, 0, 1, kWgmmaFlopsPerRound});
  } else if (sm < 90 || sm >= 120) {
    for (unsigned blocks : {1u, 2u, 4u}) {
      probes.push_back({"tensor_bf16", "tensor_bf16", 256, 0, blocks, kMmaFlopsPerRound});
      probes.push_back({"tensor_f16", "tensor_f16", 256, 0, blocks, kMmaFlopsPerRound});
    }
  }
  return probes;
}

class CeilingMeter {
 public:
  static absl::StatusOr<CeilingMeter> Create(const DeviceContext& context, Compiler& compiler);
  CeilingMeter(CeilingMeter&& other) noexcept = default;

  // Bytes or FLOPs a second.
  absl::StatusOr<double> Measure(const Probe& probe);
  void Close();

 private:
  explicit CeilingMeter(const DeviceContext& context) : context_(&context) {}
  absl::Status Allocate();
  // Seconds of the fastest of a few launches, after one that does not count.
  absl::StatusOr<double> Time(CUfunction function, unsigned blocks, unsigned threads,
                              void** arguments);
  absl::StatusOr<double> MeasureMemory(const Probe& probe, CUfunction function);
  absl::StatusOr<double> MeasureCompute(const Probe& probe, CUfunction function);
  absl::StatusOr<CUfunction> Find(const char* kernel) const;

  const DeviceContext* context_;
  CUmodule module_ = nullptr;
  std::array<CUevent, 2> events_ = {};
  DeviceMemory in_;
  DeviceMemory out_;
};

absl::StatusOr<CeilingMeter> CeilingMeter::Create(const DeviceContext& context,
                                                  Compiler& compiler) {
  CeilingMeter meter(context);
  ASSIGN_OR_RETURN(CompiledVariant compiled,
                   compiler.Compile(CeilingsCompilePlan(TargetOf(context.sm))));
  if (compiled.outcome != Outcome::kOk) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot compile the ceilings for ", context.name, ": ", compiled.log));
  }
  const DriverApi& driver = context.driver;
  RETURN_IF_ERROR(context.Check(driver.cuModuleLoadData(&meter.module_, compiled.binary.data()),
                                "cuModuleLoadData"));
  for (CUevent& event : meter.events_) {
    RETURN_IF_ERROR(context.Check(driver.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  RETURN_IF_ERROR(meter.Allocate());
  return meter;
}

absl::Status CeilingMeter::Allocate() {
  const DriverApi& driver = context_->driver;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(context_->Check(driver.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  const size_t bytes = std::min(kArrayBytesMax, free_bytes / 4) / kTileBytes * kTileBytes;
  if (bytes < kArrayBytesMin) {
    return absl::ResourceExhaustedError(absl::StrCat("only ", free_bytes >> 20, " MiB free on ",
                                                     context_->name, ": too little to measure"));
  }
  ASSIGN_OR_RETURN(in_, DeviceMemory::Allocate(*context_, bytes));
  ASSIGN_OR_RETURN(out_, DeviceMemory::Allocate(*context_, bytes));
  ASSIGN_OR_RETURN(CUfunction randomise, Find("randomise"));
  CUdeviceptr address = in_.address();
  void* arguments[] = {&address};
  return Time(randomise, static_cast<unsigned>(bytes / kWordBytes / 1024), 1024, arguments)
      .status();
}

absl::StatusOr<CUfunction> CeilingMeter::Find(const char* kernel) const {
  const std::string name = absl::StrCat("tune_harness_ceiling_", kernel);
  CUfunction function = nullptr;
  RETURN_IF_ERROR(
      context_->Check(context_->driver.cuModuleGetFunction(&function, module_, name.c_str()),
                      absl::StrCat("cuModuleGetFunction of ", name)));
  return function;
}

absl::StatusOr<double> CeilingMeter::Time(CUfunction function, unsigned blocks, unsigned threads,
                                          void** arguments) {
  const DriverApi& driver = context_->driver;
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.hStream = context_->stream;
  double seconds = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    RETURN_IF_ERROR(
        context_->Check(driver.cuEventRecord(events_[0], context_->stream), "cuEventRecord"));
    RETURN_IF_ERROR(context_->Check(driver.cuLaunchKernelEx(&config, function, arguments, nullptr),
                                    "cuLaunchKernelEx"));
    RETURN_IF_ERROR(
        context_->Check(driver.cuEventRecord(events_[1], context_->stream), "cuEventRecord"));
    RETURN_IF_ERROR(context_->Synchronize());
    float milliseconds = 0;
    RETURN_IF_ERROR(context_->Check(
        driver.cuEventElapsedTime(&milliseconds, events_[0], events_[1]), "cuEventElapsedTime"));
    if (i == 1 || (i > 1 && milliseconds * 1e-3 < seconds)) seconds = milliseconds * 1e-3;
  }
  if (seconds <= 0) return absl::InternalError("events say that a ceiling kernel took no time");
  return seconds;
}

absl::StatusOr<double> CeilingMeter::MeasureMemory(const Probe& probe, CUfunction function) {
  const size_t block_bytes =
      static_cast<size_t>(probe.threads) * probe.words_per_thread * kWordBytes;
  const bool is_copy = std::string_view(probe.ceiling) == "dram_copy";
  CUdeviceptr from = in_.address();
  CUdeviceptr to = out_.address();
  void* arguments[] = {&from, &to};
  ASSIGN_OR_RETURN(double seconds, Time(function, static_cast<unsigned>(in_.bytes() / block_bytes),
                                        probe.threads, arguments));
  return static_cast<double>(in_.bytes()) * (is_copy ? 2 : 1) / seconds;
}

// Doubles the rounds until a launch is long enough for the launch itself not to matter.
absl::StatusOr<double> CeilingMeter::MeasureCompute(const Probe& probe, CUfunction function) {
  constexpr double kSecondsMin = 1.5e-3;
  constexpr int kRoundsMax = 1 << 20;
  const unsigned blocks = probe.blocks_per_sm * static_cast<unsigned>(context_->sm_count);
  CUdeviceptr sink = out_.address();
  for (int rounds = 256;; rounds *= 4) {
    void* arguments[] = {&rounds, &sink};
    ASSIGN_OR_RETURN(double seconds, Time(function, blocks, probe.threads, arguments));
    if (seconds < kSecondsMin && rounds < kRoundsMax) continue;
    return probe.flops_per_round * rounds * blocks * probe.threads / seconds;
  }
}

absl::StatusOr<double> CeilingMeter::Measure(const Probe& probe) {
  ASSIGN_OR_RETURN(CUfunction function, Find(probe.kernel));
  return probe.words_per_thread > 0 ? MeasureMemory(probe, function)
                                    : MeasureCompute(probe, function);
}

void CeilingMeter::Close() { context_->driver.cuModuleUnload(module_); }

}  // namespace

CompilePlan CeilingsCompilePlan(const std::string& target) {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "ceilings.cu";
  plan.source_text = std::string(embedded::cuda_ceilings_source);
  plan.entry = "tune_harness_ceiling_f32";
  return plan;
}

absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(const DeviceContext& context,
                                                     Compiler& compiler) {
  ASSIGN_OR_RETURN(CeilingMeter meter, CeilingMeter::Create(context, compiler));
  std::vector<Ceiling> ceilings;
  for (const Probe& probe : ProbesFor(context.sm)) {
    ASSIGN_OR_RETURN(double value, meter.Measure(probe));
    auto same = std::find_if(ceilings.begin(), ceilings.end(), [&probe](const Ceiling& ceiling) {
      return ceiling.name == probe.ceiling;
    });
    if (same == ceilings.end()) {
      ceilings.push_back({probe.ceiling, value, /*measured=*/true});
    } else {
      same->value = std::max(same->value, value);
    }
  }
  meter.Close();
  return ceilings;
}

}  // namespace tune::cuda
