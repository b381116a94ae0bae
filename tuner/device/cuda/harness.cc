// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/harness.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/loaded_program.h"
#include "tuner/device/problem_checks.h"

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

// A page, which also keeps the data aligned for every kind of access.
constexpr size_t kGuardBytes = 4096;
// Left free for the driver, CUPTI's buffers and the variants' own code and stacks.
constexpr size_t kMemoryReserveBytes = 512u << 20;
constexpr double kGiB = 1073741824.0;

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

class DeviceProgram : public ProblemDevice::OwnProgram {
 public:
  DeviceProgram(LoadedProgram program, const DeviceContext& context)
      : program_(std::move(program)), context_(context) {}

  absl::StatusOr<std::string> Run() override {
    absl::Status status = program_.SetSymbols();
    if (status.ok()) status = program_.Launch();
    if (status.ok()) status = context_.Synchronize();
    if (status.ok()) return "";
    program_.Abandon();
    return status;
  }

 private:
  LoadedProgram program_;
  const DeviceContext& context_;
};

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
  RETURN_IF_ERROR(harness->LoadKernels(compiler));
  RETURN_IF_ERROR(harness->AllocateShared());
  return harness;
}

absl::Status Harness::LoadKernels(Compiler& compiler) {
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

absl::Status Harness::AllocateShared() {
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

absl::Status Harness::Fill(const DeviceArray& out, const tune::Fill& fill, uint64_t key) {
  if (out.count == 0) return absl::OkStatus();
  return Launch(kFill, BlocksFor(out.count, 1), static_cast<int>(out.dtype), out.address,
                static_cast<uint64_t>(out.count), static_cast<int>(fill.kind), fill.low, fill.high,
                key);
}

absl::Status Harness::Widen(const DeviceArray& out, const DeviceArray& in) {
  if (!IsFloat(in.dtype) || (out.dtype != DType::kF32 && out.dtype != DType::kF64)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot widen ", ToText(in.dtype), " to ", ToText(out.dtype)));
  }
  return Launch(kWiden, BlocksFor(out.count, 1), static_cast<int>(out.dtype), out.address,
                static_cast<int>(in.dtype), in.address, static_cast<uint64_t>(out.count));
}

absl::Status Harness::SetBytes(const DeviceArray& out, unsigned char byte) {
  if (out.count == 0) return absl::OkStatus();
  return context_.Check(
      context_.driver.cuMemsetD8Async(out.address, byte, out.bytes(), context_.stream),
      "cuMemsetD8Async");
}

absl::Status Harness::Copy(const DeviceArray& out, const DeviceArray& in) {
  return context_.Check(
      context_.driver.cuMemcpyDtoDAsync(out.address, in.address, out.bytes(), context_.stream),
      "cuMemcpyDtoDAsync");
}

absl::Status Harness::Upload(const DeviceArray& out, const std::string& elements) {
  if (elements.empty()) return absl::OkStatus();
  return context_.Check(context_.driver.cuMemcpyHtoDAsync(out.address, elements.data(),
                                                          elements.size(), context_.stream),
                        "cuMemcpyHtoDAsync");
}

absl::Status Harness::Download(const DeviceArray& in, void* host) {
  return context_.Check(
      context_.driver.cuMemcpyDtoHAsync(host, in.address, in.bytes(), context_.stream),
      "cuMemcpyDtoHAsync");
}

absl::Status Harness::FlushCache() {
  const uint64_t words = flush_.bytes() / 16;
  return Launch(kFlush, BlocksFor(words, 4), flush_.address(), words, partials_.address());
}

absl::Status Harness::CheckFits(size_t buffer_count, double bytes) const {
  if (buffer_count > kBuffersMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the kernel has ", buffer_count, " buffers; ", kBuffersMax, " are possible"));
  }
  const double needed = bytes + 2.0 * kGuardBytes * static_cast<double>(buffer_count);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(
      context_.Check(context_.driver.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  const size_t usable = free_bytes - std::min(free_bytes, kMemoryReserveBytes);
  if (needed <= static_cast<double>(usable)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the problem needs %.2f GiB of device memory with its reference; %.2f GiB of the %.2f GiB of "
      "%s is free",
      needed / kGiB, static_cast<double>(usable) / kGiB, static_cast<double>(total_bytes) / kGiB,
      context_.name));
}

absl::StatusOr<DeviceArray> Harness::Allocate(size_t buffer, Part part, const BufferPlan& plan) {
  if (buffer >= kBuffersMax) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kBuffersMax, " buffers"));
  }
  if (buffer >= buffers_.size()) buffers_.resize(buffer + 1);
  DeviceMemory& memory = buffers_[buffer].parts[part];
  // The guard after the data begins at the very next byte.
  const size_t guard = part == kData ? kGuardBytes : 0;
  const size_t bytes = std::max<size_t>(DataBytes(plan) + 2 * guard, 1);
  if (memory.bytes() < bytes) {
    memory = DeviceMemory();  // the old and the new may not both fit
    ASSIGN_OR_RETURN(memory, DeviceMemory::Allocate(context_, bytes));
  }
  if (part == kData) buffers_[buffer].data_bytes = DataBytes(plan);
  return DeviceArray{plan.dtype, memory.address() + guard, plan.count};
}

void Harness::FreeAll() {
  buffers_.clear();
  seals_.clear();
  guard_count_ = 0;
}

absl::Status Harness::SetGuards() {
  // The table is page-locked: an earlier copy of it may still be on its way.
  RETURN_IF_ERROR(Wait());
  guard_count_ = 0;
  for (const Buffer& buffer : buffers_) {
    const DeviceMemory& memory = buffer.parts[kData];
    const Address after = memory.address() + kGuardBytes + buffer.data_bytes;
    // A buffer without memory has empty guards: they are found by the number of their buffer.
    const size_t bytes = memory.bytes() == 0 ? 0 : kGuardBytes;
    guard_table_[guard_count_++] = {memory.address(), bytes};
    guard_table_[guard_count_++] = {after, bytes};
  }
  if (guard_count_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(context_.Check(
      context_.driver.cuMemcpyHtoDAsync(guards_.address(), guard_table_,
                                        guard_count_ * sizeof(GuardRange), context_.stream),
      "cuMemcpyHtoDAsync"));
  return Launch(kGuardFill, static_cast<unsigned>(guard_count_), guards_.address());
}

absl::Status Harness::BeginCheck() {
  return context_.Check(context_.driver.cuMemsetD8Async(results_memory_.address(), 0,
                                                        sizeof(CheckResults), context_.stream),
                        "cuMemsetD8Async");
}

absl::Status Harness::Compare(size_t buffer, const DeviceArray& out, const DeviceArray& reference,
                              const TolerancePlan& tolerance) {
  const unsigned blocks = std::min<unsigned>(BlocksFor(out.count, 4), kCompareBlocksMax);
  RETURN_IF_ERROR(Launch(kCompare, blocks, static_cast<int>(out.dtype), out.address,
                         static_cast<int>(reference.dtype), reference.address,
                         static_cast<uint64_t>(out.count), tolerance.rtol, tolerance.atol,
                         partials_.address()));
  return Launch(kCompareFinish, 1, partials_.address(), static_cast<int>(blocks),
                ResultAddress(offsetof(CheckResults, compare) + buffer * sizeof(CompareResult)));
}

absl::Status Harness::Hash(size_t buffer, const DeviceArray& in) {
  return Launch(kHash, BlocksFor(in.bytes() / 8, 4), in.address, static_cast<uint64_t>(in.bytes()),
                ResultAddress(offsetof(CheckResults, hashes) + buffer * sizeof(uint64_t)));
}

absl::Status Harness::EndCheck() {
  if (guard_count_ > 0) {
    RETURN_IF_ERROR(Launch(kGuardCheck, static_cast<unsigned>(guard_count_), guards_.address(),
                           ResultAddress(offsetof(CheckResults, guards))));
  }
  return context_.Check(context_.driver.cuMemcpyDtoHAsync(results_, results_memory_.address(),
                                                          sizeof(CheckResults), context_.stream),
                        "cuMemcpyDtoHAsync");
}

std::string Harness::DescribeDamage(size_t buffer) const {
  const GuardResult& before = results_->guards[2 * buffer];
  const GuardResult& after = results_->guards[2 * buffer + 1];
  if (before.bad_bytes > 0) {
    return absl::StrCat(before.bad_bytes, " bytes before it, the first ",
                        kGuardBytes - before.first_bad, " bytes ahead of its start");
  }
  if (after.bad_bytes == 0) return "";
  return absl::StrCat(after.bad_bytes, " bytes after it, the first ", after.first_bad,
                      " bytes past its end");
}

absl::StatusOr<std::vector<uint64_t>> Harness::HashParts(Part part) {
  RETURN_IF_ERROR(BeginCheck());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const DeviceMemory& memory = buffers_[i].parts[part];
    if (memory.bytes() == 0) continue;
    RETURN_IF_ERROR(Hash(i, {DType::kU8, memory.address(), static_cast<int64_t>(memory.bytes())}));
  }
  RETURN_IF_ERROR(EndCheck());
  RETURN_IF_ERROR(Wait());
  return std::vector<uint64_t>(std::begin(results_->hashes), std::end(results_->hashes));
}

absl::Status Harness::Seal(Part part) {
  ASSIGN_OR_RETURN(seals_[part], HashParts(part));
  return absl::OkStatus();
}

absl::StatusOr<bool> Harness::SealsHold() {
  for (const auto& [part, hashes] : seals_) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> now, HashParts(part));
    if (now != hashes) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<ProblemDevice::OwnProgram>> Harness::Load(
    const Program& program, const BufferResolver& resolve, const char* /*name*/) {
  ASSIGN_OR_RETURN(LoadedProgram loaded, LoadedProgram::Load(context_, program, resolve));
  return std::make_unique<DeviceProgram>(std::move(loaded), context_);
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
