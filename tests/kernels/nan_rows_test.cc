// SPDX-License-Identifier: Apache-2.0
// Runs the shipped kernels on the CPU device with a NaN in the first row of an input: whatever is
// computed of that row must be NaN, also the numbers that a caller uses to check a row, and the
// reference must agree. Comparisons with the reference never see such rows.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/kernels/kernel_on_cpu.h"

namespace tune {
namespace {

struct Case {
  std::string kernel;
  std::map<std::string, int64_t> dims;
  std::string input;                 // its first element becomes NaN
  std::vector<std::string> outputs;  // the first element of each must be NaN, the last must not

  friend void PrintTo(const Case& nan_case, std::ostream* out) { *out << nan_case.kernel; }
};

const std::map<std::string, int64_t> kMatrix = {{"rows", 2}, {"cols", 40}};
const std::map<std::string, int64_t> kHeads = {
    {"batch", 1}, {"heads", 2}, {"kv_heads", 1}, {"seq", 40}, {"head_dim", 64}};

std::map<std::string, int64_t> With(std::map<std::string, int64_t> dims, const std::string& name) {
  dims[name] = 1;
  return dims;
}

const Case kCases[] = {
    {"layernorm", kMatrix, "x", {"y", "mean", "rstd"}},
    {"layernorm", With(kMatrix, "residual"), "residual", {"y", "sum", "mean", "rstd"}},
    {"rmsnorm", kMatrix, "x", {"y", "rstd"}},
    {"softmax", kMatrix, "x", {"y"}},
    {"cross_entropy", With(kMatrix, "gradient"), "logits", {"loss", "lse", "dlogits"}},
    {"attention", kHeads, "q", {"out", "lse"}},
    {"attention", With(kHeads, "causal"), "q", {"out", "lse"}},
    {"attention", With(kHeads, "softcap"), "q", {"out", "lse"}},
    {"attention", With(kHeads, "sinks"), "q", {"out", "lse"}},
    {"attention_decode", kHeads, "q", {"out", "lse"}},
    {"qk_norm_rope", kHeads, "q", {"q_out"}},
};

// The elements of the buffers of a program: small numbers, zeros where they are integers.
class Arrays {
 public:
  explicit Arrays(const std::string& nan_input) : nan_input_(nan_input) {}

  DeviceArray Get(const BufferPlan& plan) {
    auto [found, is_new] = arrays_.try_emplace(plan.name);
    Array& array = found->second;
    if (is_new) {
      array.elements.resize((plan.count * SizeInBytes(plan.dtype) + 63) / 64 + 1);
      array.view = {plan.dtype, reinterpret_cast<uint64_t>(array.elements.data()), plan.count};
      if (IsFloat(plan.dtype) && plan.role == Role::kInput) Fill(array, plan.name == nan_input_);
    }
    return array.view;
  }

  double At(const std::string& name, bool last) {
    const DeviceArray& view = arrays_.at(name).view;
    const auto* bytes = static_cast<const char*>(view.data());
    if (last) bytes += view.bytes() - SizeInBytes(view.dtype);
    if (view.dtype == DType::kF64) return Read<double>(bytes);
    if (view.dtype == DType::kF32) return Read<float>(bytes);
    return std::bit_cast<float>(static_cast<uint32_t>(Read<uint16_t>(bytes)) << 16);
  }

 private:
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  struct Array {
    std::vector<Line> elements;
    DeviceArray view;
  };

  template <typename T>
  static T Read(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }

  static void Fill(Array& array, bool has_nan) {
    ASSERT_TRUE(array.view.dtype == DType::kF32 || array.view.dtype == DType::kBF16);
    const size_t size = array.view.dtype == DType::kF32 ? 4 : 2;
    for (int64_t i = 0; i < array.view.count; ++i) {
      const float value = has_nan && i == 0 ? NAN : 0.25f * static_cast<float>(i % 7);
      const auto bits = std::bit_cast<uint32_t>(value) >> (size == 4 ? 0 : 16);
      std::memcpy(static_cast<char*>(array.view.data()) + i * size, &bits, size);
    }
  }

  std::string nan_input_;
  std::map<std::string, Array> arrays_;
};

class NanRows : public KernelOnCpu, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override { Load(GetParam().kernel); }

  void ExpectNan(const ProgramPlan& plan) {
    std::string binary;
    ASSERT_NO_FATAL_FAILURE(Compile(plan, &binary));
    Arrays arrays(GetParam().input);
    ASSERT_NO_FATAL_FAILURE(
        Launch(plan, binary, [&](const BufferPlan& buffer) { return arrays.Get(buffer); }));
    for (const std::string& output : GetParam().outputs) {
      EXPECT_TRUE(std::isnan(arrays.At(output, false)))
          << output << " = " << arrays.At(output, false);
      EXPECT_TRUE(std::isfinite(arrays.At(output, true)))
          << output << " = " << arrays.At(output, true);
    }
  }
};

TEST_P(NanRows, AreNanInEveryOutput) {
  const TargetTraits traits = *TargetTraitsFor("cpu");
  auto problem = kernel_->MakeProblem(GetParam().dims, "bf16", "cpu");
  ASSERT_TRUE(problem.ok()) << problem.status();
  auto plan = kernel_->PlanProblem(*problem, traits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  {
    SCOPED_TRACE("reference");
    ExpectNan(plan->reference);
  }
  auto space = kernel_->MakeSpace(*problem, traits);
  ASSERT_TRUE(space.ok()) << space.status();
  for (const uint64_t index : {uint64_t{0}, space->size() - 1}) {
    SCOPED_TRACE(ToText(space->At(index)));
    auto variant = kernel_->PlanProgram(*problem, traits, space->At(index));
    ASSERT_TRUE(variant.ok()) << variant.status();
    ExpectNan(*variant);
  }
}

INSTANTIATE_TEST_SUITE_P(OfKernels, NanRows, testing::ValuesIn(kCases), [](const auto& info) {
  return info.param.kernel + std::to_string(info.index);
});

}  // namespace
}  // namespace tune
