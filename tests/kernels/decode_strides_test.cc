// SPDX-License-Identifier: Apache-2.0
// Runs attention_decode on the CPU device with views: queries of [heads, batch, queries, head_dim],
// keys and values that lie apart in their caches, rows of longer caches and of a wider table.
// Between the elements of a view are NaN, and entries of another page in the table. The results
// must be bit by bit those of contiguous arrays, of the variants as of the reference.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/kernels/kernel_on_cpu.h"

namespace tune {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kQueries = 3;
constexpr int64_t kQueryHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 64;
constexpr int64_t kPageSize = 16;
constexpr int64_t kPages = 5;  // of a sequence of 70 keys

using Strides = std::vector<int64_t>;  // in elements, of all axes

// A buffer of a program. Without strides it is contiguous.
class Array {
 public:
  Array(const BufferPlan& plan, Strides strides)
      : plan_(plan), shape_(plan.shape), strides_(std::move(strides)) {
    if (shape_.empty()) shape_ = {plan_.count};
    if (strides_.empty()) {
      strides_.assign(shape_.size(), 1);
      for (size_t i = shape_.size() - 1; i > 0; --i) strides_[i - 1] = strides_[i] * shape_[i];
    }
    lines_.resize(static_cast<size_t>(PlaceOf(plan_.count - 1) + 1) * Size() / 64 + 1);
    for (size_t i = 0; i + Size() <= lines_.size() * 64; i += Size()) Write(i / Size(), Gap());
    for (int64_t i = 0; i < plan_.count; ++i) Write(PlaceOf(i), ElementAt(i));
  }

  DeviceArray view() {
    return {plan_.dtype, reinterpret_cast<uint64_t>(lines_.data()), plan_.count};
  }

  // The elements in the order of the axes.
  std::string Read() const {
    std::string elements;
    for (int64_t i = 0; i < plan_.count; ++i) {
      elements.append(Bytes() + PlaceOf(i) * Size(), Size());
    }
    return elements;
  }

 private:
  struct alignas(64) Line {
    char bytes[64] = {};
  };

  size_t Size() const { return SizeInBytes(plan_.dtype); }
  char* Bytes() { return lines_.data()->bytes; }
  const char* Bytes() const { return lines_.data()->bytes; }

  int64_t PlaceOf(int64_t index) const {
    int64_t place = 0;
    for (size_t axis = shape_.size(); axis-- > 0; index /= shape_[axis]) {
      place += index % shape_[axis] * strides_[axis];
    }
    return place;
  }

  // The bits of a number: of bf16 the upper half of those of f32.
  uint32_t Bits(float value) const {
    return std::bit_cast<uint32_t>(value) >> (plan_.dtype == DType::kBF16 ? 16 : 0);
  }

  uint32_t Gap() const { return IsFloat(plan_.dtype) ? Bits(NAN) : 0; }

  uint32_t ElementAt(int64_t i) const {
    if (plan_.role != Role::kInput) return Gap();
    if (plan_.name == "table") return static_cast<uint32_t>(plan_.count - 1 - i);
    if (plan_.name == "unused") return static_cast<uint32_t>(9 * i);
    return Bits(static_cast<float>(i * 37 % 29 - 14) / 16);
  }

  void Write(int64_t place, uint32_t bits) { std::memcpy(Bytes() + place * Size(), &bits, Size()); }

  const BufferPlan plan_;
  std::vector<int64_t> shape_;
  Strides strides_;
  std::vector<Line> lines_;
};

bool AreFinite(const std::string& floats) {
  for (size_t i = 0; i < floats.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, floats.data() + i, sizeof(value));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

class DecodeStrides : public KernelOnCpu, public testing::WithParamInterface<int64_t> {
 protected:
  void SetUp() override {
    Load("attention_decode");
    const bool heads_first = GetParam() == 1;
    constexpr int64_t kPage = kPageSize * kKvHeads * kHeadDim;
    // Pages of both caches: keys have a gap behind each head, values lie beside others.
    const std::pair<int64_t, int64_t> keys = {kHeadDim, (kPageSize + 1) * kHeadDim};
    const std::pair<int64_t, int64_t> values = {3 * kKvHeads * kHeadDim, kHeadDim};
    views_ = {
        {"q", {kQueries * kHeadDim, kHeadDim, kBatch * kQueries * kHeadDim, 1}},
        {"out", {kQueryHeads * kQueries * 2 * kHeadDim, 2 * kHeadDim, kQueries * 2 * kHeadDim, 1}},
        {"table", {kPages + 3, 1}}};
    const int64_t gap = heads_first ? 0 : 3 * kPage;  // behind a row of the cache
    for (const auto& [name, places] : {std::pair("k", keys), {"v", values}}) {
      const auto [key, head] = places;
      views_[name] = {kPages * 4 * kPage + gap, 4 * kPage, key, head, 1};
      if (heads_first) std::swap(views_[name][2], views_[name][3]);
      SetScalars(name, {"page", "key", "head"}, {4 * kPage, key, head});
      scalars_[std::string(name) + "_row_gap"] = gap;
    }
    for (const char* name : {"q", "out"}) {
      SetScalars(name, {"batch", "query", "head"}, views_[name]);
    }
    scalars_["table_stride"] = kPages + 3;
  }

  void SetScalars(const std::string& name, const std::vector<std::string>& axes,
                  const Strides& strides) {
    for (size_t i = 0; i < axes.size(); ++i) {
      scalars_[name + "_" + axes[i] + "_stride"] = strides[i];
    }
  }

  // The results of a launch of contiguous arrays, or of views.
  std::map<std::string, std::string> Run(ProgramPlan plan, const std::string& binary,
                                         const std::map<std::string, Strides>& views) {
    std::map<std::string, Array> arrays;
    if (!views.empty()) {
      for (StepPlan& step : plan.steps) UseScalars(step, views);
    }
    Launch(plan, binary, [&](const BufferPlan& buffer) {
      const auto strides = views.find(buffer.name);
      const auto [array, _] = arrays.try_emplace(
          buffer.name, buffer, strides == views.end() ? Strides{} : strides->second);
      return array->second.view();
    });
    return {{"out", arrays.at("out").Read()}, {"lse", arrays.at("lse").Read()}};
  }

  void UseScalars(StepPlan& step, const std::map<std::string, Strides>& views) {
    for (ArgPlan& arg : step.args) {
      auto* scalar = std::get_if<ScalarPlan>(&arg);
      if (scalar == nullptr || scalars_.count(scalar->name) == 0) continue;
      if (views.count(scalar->name.substr(0, scalar->name.find('_'))) == 0) continue;
      scalar->value = scalars_.at(scalar->name);
    }
  }

  void ExpectTheSame(const ProgramPlan& plan, const std::map<std::string, Strides>& views) {
    std::string binary;
    ASSERT_NO_FATAL_FAILURE(Compile(plan, &binary));
    const auto contiguous = Run(plan, binary, {});
    EXPECT_TRUE(AreFinite(contiguous.at("lse")));
    EXPECT_TRUE(Run(plan, binary, views) == contiguous);
  }

  std::map<std::string, Strides> views_;
  std::map<std::string, int64_t> scalars_;
};

TEST_P(DecodeStrides, ResultsOfViewsAreThoseOfContiguousArrays) {
  const TargetTraits traits = *TargetTraitsFor("cpu");
  auto problem = kernel_->MakeProblem({{"batch", kBatch},
                                       {"queries", kQueries},
                                       {"heads", kQueryHeads},
                                       {"kv_heads", kKvHeads},
                                       {"seq", 70},
                                       {"head_dim", kHeadDim},
                                       {"page_size", kPageSize},
                                       {"heads_first", GetParam()}},
                                      "bf16", "cpu");
  ASSERT_TRUE(problem.ok()) << problem.status();
  auto plan = kernel_->PlanProblem(*problem, traits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  {
    SCOPED_TRACE("reference");
    auto inputs = views_;
    inputs.erase("out");
    ExpectTheSame(plan->reference, inputs);
  }
  auto space = kernel_->MakeSpace(*problem, traits);
  ASSERT_TRUE(space.ok()) << space.status();
  std::vector<size_t> steps;
  for (const uint64_t index : {uint64_t{0}, space->size() - 1}) {
    SCOPED_TRACE(ToText(space->At(index)));
    auto variant = kernel_->PlanProgram(*problem, traits, space->At(index));
    ASSERT_TRUE(variant.ok()) << variant.status();
    ExpectTheSame(*variant, views_);
    steps.push_back(variant->steps.size());
  }
  EXPECT_EQ(steps, (std::vector<size_t>{1, 2}));  // without and with a second step that merges
}

INSTANTIATE_TEST_SUITE_P(HeadsFirst, DecodeStrides, testing::Values(0, 1));

}  // namespace
}  // namespace tune
