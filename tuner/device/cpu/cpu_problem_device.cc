// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/cpu_problem_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/device/cpu/cache_flush.h"
#include "tuner/device/cpu/fault_report.h"
#include "tuner/device/cpu/guarded_buffer.h"
#include "tuner/device/cpu/loaded_program.h"
#include "tuner/device/elements.h"
#include "tuner/device/problem_checks.h"

namespace tune::cpu {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr int64_t kGrain = 65536;

constexpr int64_t kPiece = 512;
constexpr int64_t kCheckGrain = 4096;

void ComparePiece(const DeviceArray& out, const DeviceArray& reference, int64_t begin, int64_t end,
                  const TolerancePlan& tolerance, CompareResult& sum) {
  std::array<double, kPiece> values;
  std::array<double, kPiece> references;
  LoadElements(out.dtype, out.data(), begin, end, values.data());
  LoadElements(reference.dtype, reference.data(), begin, end, references.data());
  const bool same = out.dtype == reference.dtype;
  const bool with_sign = same && out.dtype == DType::kI64;
  const bool without_sign = same && out.dtype == DType::kU64;
  const auto* integers = static_cast<const int64_t*>(out.data());
  const auto* reference_integers = static_cast<const int64_t*>(reference.data());
  for (int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<size_t>(i - begin);
    const double error = with_sign ? ErrorOfIntegers(integers[i], reference_integers[i])
                         : without_sign
                             ? ErrorOfUnsigned(static_cast<uint64_t>(integers[i]),
                                               static_cast<uint64_t>(reference_integers[i]))
                             : ErrorOf(values[at], references[at]);
    AddElement(values[at], references[at], error, static_cast<unsigned long long>(i),
               tolerance.rtol, tolerance.atol, sum);
  }
}

// A step of a hash over 64-bit words; the mixing is SplitMix64's finaliser.
uint64_t Step(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xd6e8feb86659fd93ull;
  return hash ^ (hash >> 32);
}
uint64_t Finish(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t HashRange(const unsigned char* data, size_t bytes, uint64_t start) {
  // Four chains: one would wait for its own multiplications.
  std::array<uint64_t, 4> chains = {start, start + 1, start + 2, start + 3};
  size_t offset = 0;
  for (; offset + 32 <= bytes; offset += 32) {
    for (size_t chain = 0; chain < 4; ++chain) {
      uint64_t word;
      std::memcpy(&word, data + offset + 8 * chain, 8);
      chains[chain] = Step(chains[chain], word);
    }
  }
  for (; offset < bytes; ++offset) chains[0] = Step(chains[0], data[offset] + 1);
  return Finish(chains[0]) + 3 * Finish(chains[1]) + 5 * Finish(chains[2]) + 7 * Finish(chains[3]);
}

class HostProgram : public ProblemDevice::OwnProgram {
 public:
  HostProgram(LoadedProgram program, Launcher& launcher, const char* name)
      : program_(std::move(program)), launcher_(launcher), name_(name) {}

  absl::StatusOr<std::string> Run() override {
    const FaultActor actor(name_);
    program_.FillGuards(launcher_);
    RETURN_IF_ERROR(program_.Launch(launcher_).status());
    return program_.DescribeDamage(launcher_);
  }

 private:
  const LoadedProgram program_;
  Launcher& launcher_;
  const char* const name_;
};

class CpuProblemDevice : public ProblemDevice {
 public:
  CpuProblemDevice(Launcher& launcher, int64_t memory_bytes_max)
      : launcher_(launcher), memory_bytes_max_(static_cast<double>(memory_bytes_max)) {}

  absl::Status CheckFits(size_t, double bytes) const override {
    if (bytes <= memory_bytes_max_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the problem needs %.2f GiB with its reference; half of the host's memory, %.2f GiB, may "
        "be used: choose smaller dims",
        bytes / kGiB, memory_bytes_max_ / kGiB));
  }
  absl::StatusOr<DeviceArray> Allocate(size_t buffer, Part part, const BufferPlan& plan) override;
  void FreeAll() override { buffers_.clear(); }
  absl::Status SetGuards() override {
    for (Parts& parts : buffers_) {
      if (parts[kData].data() != nullptr) parts[kData].SetGuards();
    }
    return absl::OkStatus();
  }

  absl::Status SetBytes(const DeviceArray& out, unsigned char byte) override {
    return ForBytes(out, [&](char* data, int64_t begin, size_t bytes) {
      std::memset(data + begin, byte, bytes);
    });
  }
  absl::Status Fill(const DeviceArray& out, const tune::Fill& fill, uint64_t key) override {
    launcher_.ForPieces(out.count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
      FillElements(out.dtype, fill, key, begin, end, out.data());
    });
    return absl::OkStatus();
  }
  absl::Status Copy(const DeviceArray& out, const DeviceArray& in) override {
    return CopyFrom(out, static_cast<const char*>(in.data()));
  }
  absl::Status Widen(const DeviceArray& out, const DeviceArray& in) override {
    launcher_.ForPieces(out.count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
      WidenElements(in.dtype, in.data(), out.dtype, out.data(), begin, end);
    });
    return absl::OkStatus();
  }
  absl::Status Upload(const DeviceArray& out, const std::string& elements) override {
    return CopyFrom(out, elements.data());
  }
  absl::Status Download(const DeviceArray& in, void* host) override {
    std::memcpy(host, in.data(), in.bytes());
    return absl::OkStatus();
  }
  absl::Status FlushCache() override;

  absl::Status BeginCheck() override {
    results_.assign(buffers_.size(), {});
    return absl::OkStatus();
  }
  absl::Status Compare(size_t buffer, const DeviceArray& out, const DeviceArray& reference,
                       const TolerancePlan& tolerance) override;
  absl::Status Hash(size_t buffer, const DeviceArray& in) override;
  absl::Status EndCheck() override { return absl::OkStatus(); }
  absl::Status Wait() override { return absl::OkStatus(); }

  const CompareResult& comparison(size_t buffer) const override {
    return results_[buffer].comparison;
  }
  uint64_t hash(size_t buffer) const override { return results_[buffer].hash; }
  std::string DescribeDamage(size_t buffer) const override;
  std::string DescribeUnwritten(const std::string& name, const DeviceArray& out) const override;

  absl::Status Seal(Part part) override {
    for (Parts& parts : buffers_) {
      if (parts[part].data() != nullptr) parts[part].MakeReadOnly();
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> SealsHold() override { return true; }

  absl::StatusOr<std::unique_ptr<OwnProgram>> Load(const Program& program,
                                                   const BufferResolver& resolve,
                                                   const char* name) override {
    ASSIGN_OR_RETURN(LoadedProgram loaded, LoadedProgram::Load(program, resolve));
    return std::make_unique<HostProgram>(std::move(loaded), launcher_, name);
  }

 private:
  using Parts = std::array<GuardedBuffer, kPartCount>;
  struct Result {
    CompareResult comparison = {};
    uint64_t hash = 0;
  };

  // Calls `work` with pieces of the array's bytes, on all threads.
  template <typename Work>
  absl::Status ForBytes(const DeviceArray& array, const Work& work) {
    const auto bytes = static_cast<int64_t>(array.bytes());
    launcher_.ForPieces(bytes, kGrain, [&](unsigned, int64_t begin, int64_t end) {
      work(static_cast<char*>(array.data()), begin, static_cast<size_t>(end - begin));
    });
    return absl::OkStatus();
  }
  absl::Status CopyFrom(const DeviceArray& out, const char* from) {
    return ForBytes(out, [&](char* data, int64_t begin, size_t bytes) {
      std::memcpy(data + begin, from + begin, bytes);
    });
  }

  Launcher& launcher_;
  const double memory_bytes_max_;
  std::vector<Parts> buffers_;
  std::vector<Result> results_;
};

absl::StatusOr<DeviceArray> CpuProblemDevice::Allocate(size_t buffer, Part part,
                                                       const BufferPlan& plan) {
  if (static_cast<double>(plan.count) * static_cast<double>(SizeInBytes(plan.dtype)) >
      memory_bytes_max_) {
    return absl::InvalidArgumentError(
        absl::StrCat("scratch '", plan.name, "' of ", plan.count, " elements is too large"));
  }
  if (buffer >= buffers_.size()) buffers_.resize(buffer + 1);
  GuardedBuffer& memory = buffers_[buffer][part];
  memory = GuardedBuffer();  // the old and the new may not both fit
  ASSIGN_OR_RETURN(memory, GuardedBuffer::Allocate(DataBytes(plan), static_cast<unsigned>(buffer)));
  if (part == kData) memory.Name(absl::StrCat("buffer '", plan.name, "'"));
  if (part == kReference) memory.Name(absl::StrCat("the reference's buffer '", plan.name, "'"));
  const DeviceArray array = {plan.dtype, reinterpret_cast<uint64_t>(memory.data()), plan.count};
  // Fresh pages hold zeros, which a GPU's memory need not.
  if (plan.role == Role::kScratch) RETURN_IF_ERROR(SetBytes(array, PoisonByte(plan.dtype)));
  return array;
}

absl::Status CpuProblemDevice::FlushCache() {
  for (const Parts& parts : buffers_) {
    const GuardedBuffer& memory = parts[kData];
    const DeviceArray bytes = {DType::kU8, reinterpret_cast<uint64_t>(memory.data()),
                               static_cast<int64_t>(memory.bytes())};
    RETURN_IF_ERROR(ForBytes(bytes, [](const char* data, int64_t begin, size_t size) {
      FlushFromCaches(data + begin, size);
    }));
  }
  return absl::OkStatus();
}

absl::Status CpuProblemDevice::Compare(size_t buffer, const DeviceArray& out,
                                       const DeviceArray& reference,
                                       const TolerancePlan& tolerance) {
  std::vector<CompareResult> parts(launcher_.thread_count(), CompareResult());
  launcher_.ForPieces(out.count, kCheckGrain, [&](unsigned thread, int64_t begin, int64_t end) {
    CompareResult sum = {};
    for (int64_t first = begin; first < end; first += kPiece) {
      ComparePiece(out, reference, first, std::min(end, first + kPiece), tolerance, sum);
    }
    parts[thread] = sum;
  });
  for (const CompareResult& part : parts) Merge(part, results_[buffer].comparison);
  return absl::OkStatus();
}

absl::Status CpuProblemDevice::Hash(size_t buffer, const DeviceArray& in) {
  std::vector<uint64_t> parts(launcher_.thread_count());
  const auto* data = static_cast<const unsigned char*>(in.data());
  launcher_.ForPieces(static_cast<int64_t>(in.bytes()), kCheckGrain,
                      [&](unsigned thread, int64_t begin, int64_t end) {
                        parts[thread] =
                            HashRange(data + begin, static_cast<size_t>(end - begin), thread);
                      });
  uint64_t hash = in.bytes();
  for (uint64_t part : parts) hash = Finish(hash ^ part);
  results_[buffer].hash = hash;
  return absl::OkStatus();
}

std::string CpuProblemDevice::DescribeDamage(size_t buffer) const {
  for (const Part part : {kReference, kData}) {
    const GuardedBuffer& memory = buffers_[buffer][part];
    if (memory.data() == nullptr) continue;
    if (std::string damage = memory.DescribeDamage(); !damage.empty()) return damage;
  }
  return "";
}

std::string CpuProblemDevice::DescribeUnwritten(const std::string& name,
                                                const DeviceArray& out) const {
  const auto size = static_cast<size_t>(SizeInBytes(out.dtype));
  const std::string poison(size, static_cast<char>(PoisonByte(out.dtype)));
  const char* data = static_cast<const char*>(out.data());
  int64_t first = -1;
  int64_t unwritten = 0;
  for (int64_t i = 0; i < out.count; ++i) {
    if (std::memcmp(data + static_cast<size_t>(i) * size, poison.data(), size) != 0) continue;
    if (first < 0) first = i;
    ++unwritten;
  }
  if (first < 0) return "";
  const std::string share = absl::StrCat(unwritten, " of ", out.count);
  if (first == 0 && unwritten == out.count) {
    return absl::StrCat("'", name, "' was never written, in none of its elements");
  }
  if (unwritten == out.count - first) {
    return absl::StrCat("'", name, "' was never written from element ", first, " to its end (",
                        share, " elements): is the grid too small?");
  }
  return absl::StrCat("'", name, "' was never written in ", share, " elements, the first of them ",
                      first);
}

}  // namespace

std::unique_ptr<ProblemDevice> MakeProblemDevice(Launcher& launcher, int64_t memory_bytes_max) {
  return std::make_unique<CpuProblemDevice>(launcher, memory_bytes_max);
}

}  // namespace tune::cpu
