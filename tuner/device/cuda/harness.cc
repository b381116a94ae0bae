// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/harness.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::embedded {
extern const std::string_view cuda_harness_source;
extern const std::string_view cuda_harness_layout;
extern const std::string_view cuda_compare_header;
extern const std::string_view cuda_fill_header;
}  // namespace tune::embedded

namespace tune::cuda {
namespace {

constexpr const char* kKernelNames[] = {
    "tune_harness_fill",           "tune_harness_widen", "tune_harness_compare",
    "tune_harness_compare_finish", "tune_harness_hash",  "tune_harness_guard_fill",
    "tune_harness_guard_check",    "tune_harness_flush", "tune_harness_canary",
};

constexpr uint64_t kCanarySeed = 0x7475'6e65'6374'6c00ull;

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

CompilePlan HarnessCompilePlan(const std::string& target) {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "harness.cu";
  plan.source_text = std::string(embedded::cuda_harness_source);
  plan.headers = {{"compare.h", std::string(embedded::cuda_compare_header)},
                  {"fill.h", std::string(embedded::cuda_fill_header)},
                  {"harness_layout.h", std::string(embedded::cuda_harness_layout)}};
  plan.entries = {kKernelNames[0]};
  return plan;
}

absl::StatusOr<std::unique_ptr<Harness>> Harness::Create(const DeviceContext& context,
                                                         Compiler& compiler) {
  std::unique_ptr<Harness> harness(new Harness(context));
  RETURN_IF_ERROR(harness->Load(compiler));
  RETURN_IF_ERROR(harness->Allocate());
  return harness;
}

absl::Status Harness::Load(Compiler& compiler) {
  static_assert(std::size(kKernelNames) == kKernelCount);
  ASSIGN_OR_RETURN(Artifact compiled, compiler.Compile(HarnessCompilePlan(TargetOf(context_.sm))));
  if (compiled.outcome != Outcome::kOk) {
    return absl::FailedPreconditionError(absl::StrCat(
        compiler.Version(), " cannot compile the harness for ", context_.name, ": ", compiled.log));
  }
  const DriverApi& driver = context_.driver;
  CUresult result = driver.cuModuleLoadData(&module_, compiled.binary.data());
  if (result != CUDA_SUCCESS) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the driver (CUDA ", context_.driver_version / 1000, ".",
        context_.driver_version % 1000 / 10, ") does not load what ", compiler.Version(),
        " compiles: ", driver.ErrorText(result), "; install a newer driver or an older toolkit"));
  }
  for (int i = 0; i < kKernelCount; ++i) {
    RETURN_IF_ERROR(
        context_.Check(driver.cuModuleGetFunction(&functions_[i], module_, kKernelNames[i]),
                       absl::StrCat("cuModuleGetFunction of ", kKernelNames[i])));
  }
  return absl::OkStatus();
}

absl::Status Harness::Allocate() {
  ASSIGN_OR_RETURN(results_memory_, DeviceMemory::Allocate(context_, sizeof(CheckResults)));
  ASSIGN_OR_RETURN(partials_,
                   DeviceMemory::Allocate(context_, kCompareBlocksMax * sizeof(CompareResult)));
  ASSIGN_OR_RETURN(guards_, DeviceMemory::Allocate(context_, 2 * kBuffersMax * sizeof(GuardRange)));
  ASSIGN_OR_RETURN(canary_, DeviceMemory::Allocate(context_, kHarnessThreads * sizeof(uint64_t)));
  // Twice the cache: whatever its replacement policy keeps of an older line, one pass over as much
  // again evicts it. 64 MiB at least, for devices that report too little.
  const size_t flush_bytes = std::max<size_t>(2 * static_cast<size_t>(context_.l2_bytes), 64 << 20);
  ASSIGN_OR_RETURN(flush_, DeviceMemory::Allocate(context_, flush_bytes));
  const DriverApi& driver = context_.driver;
  RETURN_IF_ERROR(
      context_.Check(driver.cuMemsetD8Async(flush_.address(), 0, flush_.bytes(), context_.stream),
                     "cuMemsetD8Async"));
  void* host = nullptr;
  RETURN_IF_ERROR(
      context_.Check(driver.cuMemAllocHost(&host, sizeof(CheckResults)), "cuMemAllocHost"));
  results_ = static_cast<CheckResults*>(host);
  RETURN_IF_ERROR(context_.Check(driver.cuMemAllocHost(&host, 2 * kBuffersMax * sizeof(GuardRange)),
                                 "cuMemAllocHost"));
  guard_table_ = static_cast<GuardRange*>(host);
  return context_.Synchronize();
}

template <typename... Args>
absl::Status Harness::Launch(Kernel kernel, unsigned blocks, Args... args) {
  void* pointers[] = {&args...};
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = kHarnessThreads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.hStream = context_.stream;
  return context_.Check(
      context_.driver.cuLaunchKernelEx(&config, functions_[kernel], pointers, nullptr),
      absl::StrCat("launch of ", kKernelNames[kernel]));
}

unsigned Harness::BlocksFor(uint64_t count, uint64_t each) const {
  const uint64_t wanted = count / (each * kHarnessThreads) + 1;
  return static_cast<unsigned>(std::min<uint64_t>(wanted, 8ull * context_.sm_count));
}

absl::Status Harness::Fill(const Array& out, const tune::Fill& fill, uint64_t key) {
  if (out.count == 0) return absl::OkStatus();
  return Launch(kFill, BlocksFor(out.count, 1), static_cast<int>(out.dtype), out.address,
                static_cast<uint64_t>(out.count), static_cast<int>(fill.kind), fill.low, fill.high,
                key);
}

absl::Status Harness::Widen(const Array& out, const Array& in) {
  if (!IsFloat(in.dtype) || (out.dtype != DType::kF32 && out.dtype != DType::kF64)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot widen ", ToText(in.dtype), " to ", ToText(out.dtype)));
  }
  return Launch(kWiden, BlocksFor(out.count, 1), static_cast<int>(out.dtype), out.address,
                static_cast<int>(in.dtype), in.address, static_cast<uint64_t>(out.count));
}

absl::Status Harness::Poison(const Array& out) {
  const unsigned char byte = IsFloat(out.dtype) ? 0xff : 0xa5;  // all ones is a NaN in every format
  if (out.count == 0) return absl::OkStatus();
  return context_.Check(
      context_.driver.cuMemsetD8Async(out.address, byte, out.bytes(), context_.stream),
      "cuMemsetD8Async");
}

absl::Status Harness::FlushCache() {
  const uint64_t words = flush_.bytes() / 16;
  return Launch(kFlush, BlocksFor(words, 4), flush_.address(), words, partials_.address());
}

absl::Status Harness::SetGuards(const std::vector<GuardRange>& ranges) {
  if (ranges.size() > 2 * kBuffersMax) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kBuffersMax, " buffers"));
  }
  // The table is page-locked: an earlier copy of it may still be on its way.
  RETURN_IF_ERROR(context_.Synchronize());
  std::copy(ranges.begin(), ranges.end(), guard_table_);
  guard_count_ = ranges.size();
  if (guard_count_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(context_.Check(
      context_.driver.cuMemcpyHtoDAsync(guards_.address(), guard_table_,
                                        guard_count_ * sizeof(GuardRange), context_.stream),
      "cuMemcpyHtoDAsync"));
  return RepairGuards();
}

absl::Status Harness::RepairGuards() {
  if (guard_count_ == 0) return absl::OkStatus();
  return Launch(kGuardFill, static_cast<unsigned>(guard_count_), guards_.address());
}

absl::Status Harness::BeginCheck() {
  return context_.Check(context_.driver.cuMemsetD8Async(results_memory_.address(), 0,
                                                        sizeof(CheckResults), context_.stream),
                        "cuMemsetD8Async");
}

absl::Status Harness::Compare(int slot, const Array& out, const Array& reference,
                              const TolerancePlan& tolerance) {
  const unsigned blocks = std::min<unsigned>(BlocksFor(out.count, 4), kCompareBlocksMax);
  RETURN_IF_ERROR(Launch(kCompare, blocks, static_cast<int>(out.dtype), out.address,
                         static_cast<int>(reference.dtype), reference.address,
                         static_cast<uint64_t>(out.count), tolerance.rtol, tolerance.atol,
                         partials_.address()));
  return Launch(kCompareFinish, 1, partials_.address(), static_cast<int>(blocks),
                ResultAddress(offsetof(CheckResults, compare) + slot * sizeof(CompareResult)));
}

absl::Status Harness::Hash(int slot, CUdeviceptr address, size_t bytes) {
  return Launch(kHash, BlocksFor(bytes / 8, 4), address, static_cast<uint64_t>(bytes),
                ResultAddress(offsetof(CheckResults, hashes) + slot * sizeof(uint64_t)));
}

absl::Status Harness::CheckGuards() {
  if (guard_count_ == 0) return absl::OkStatus();
  return Launch(kGuardCheck, static_cast<unsigned>(guard_count_), guards_.address(),
                ResultAddress(offsetof(CheckResults, guards)));
}

absl::Status Harness::EndCheck() {
  return context_.Check(context_.driver.cuMemcpyDtoHAsync(results_, results_memory_.address(),
                                                          sizeof(CheckResults), context_.stream),
                        "cuMemcpyDtoHAsync");
}

absl::Status Harness::RunCanary() {
  RETURN_IF_ERROR(Launch(kCanary, 1, canary_.address(), kCanarySeed));
  std::vector<uint64_t> values(kHarnessThreads);
  RETURN_IF_ERROR(context_.Check(
      context_.driver.cuMemcpyDtoHAsync(values.data(), canary_.address(),
                                        values.size() * sizeof(uint64_t), context_.stream),
      "cuMemcpyDtoHAsync"));
  RETURN_IF_ERROR(context_.Synchronize());
  for (uint64_t i = 0; i < values.size(); ++i) {
    const uint64_t expected =
        Mix(kCanarySeed + kHarnessThreads - 1 - i) + Mix(kCanarySeed + (i ^ 1));
    if (values[i] != expected) {
      return absl::DataLossError(absl::StrCat(context_.name, " computed ", values[i], " where ",
                                              expected, " is right (canary, thread ", i,
                                              "): do not trust this device"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tune::cuda
