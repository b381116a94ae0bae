// SPDX-License-Identifier: Apache-2.0
// The harness's own kernels against the host's arithmetic.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/tuner/device/cuda/gpu_fixture.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/elements.h"
#include "tuner/device/fill.h"
#include "tuner/device/problem_checks.h"

namespace tune::cuda {
namespace {

// Uses the process's context beside the fixture's runner.
class HarnessGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<DriverApi> driver = DriverApi::Load();
    ASSERT_TRUE(driver.ok()) << driver.status();
    absl::StatusOr<std::unique_ptr<DeviceContext>> context = DeviceContext::Open(*driver, 0);
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = std::move(context).value();
    absl::StatusOr<std::unique_ptr<Harness>> harness = Harness::Create(*context_, compiler());
    ASSERT_TRUE(harness.ok()) << harness.status();
    harness_ = std::move(harness).value();
  }

  DeviceArray Allocate(DType dtype, int64_t count) {
    absl::StatusOr<DeviceMemory> memory =
        DeviceMemory::Allocate(*context_, static_cast<size_t>(count * SizeInBytes(dtype)));
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_.push_back(std::move(memory).value());
    return {dtype, memory_.back().address(), count};
  }

  template <typename T>
  DeviceArray Upload(DType dtype, const std::vector<T>& values) {
    DeviceArray array = Allocate(dtype, static_cast<int64_t>(values.size()));
    EXPECT_EQ(context_->driver.cuMemcpyHtoDAsync(array.address, values.data(), array.bytes(),
                                                 context_->stream),
              CUDA_SUCCESS);
    EXPECT_TRUE(context_->Synchronize().ok());
    return array;
  }

  template <typename T>
  std::vector<T> Download(const DeviceArray& array) {
    std::vector<T> values(static_cast<size_t>(array.count));
    EXPECT_EQ(context_->driver.cuMemcpyDtoHAsync(values.data(), array.address, array.bytes(),
                                                 context_->stream),
              CUDA_SUCCESS);
    EXPECT_TRUE(context_->Synchronize().ok());
    return values;
  }

  CompareResult Compare(const DeviceArray& out, const DeviceArray& reference,
                        const TolerancePlan& tolerance) {
    EXPECT_TRUE(harness_->BeginCheck().ok());
    EXPECT_TRUE(harness_->Compare(3, out, reference, tolerance).ok());
    EXPECT_TRUE(harness_->EndCheck().ok());
    EXPECT_TRUE(context_->Synchronize().ok());
    return harness_->comparison(3);
  }

  uint64_t Hash(const DeviceArray& array) {
    EXPECT_TRUE(harness_->BeginCheck().ok());
    EXPECT_TRUE(harness_->Hash(0, array).ok());
    EXPECT_TRUE(harness_->EndCheck().ok());
    EXPECT_TRUE(context_->Synchronize().ok());
    return harness_->hash(0);
  }

  std::unique_ptr<DeviceContext> context_;
  std::unique_ptr<Harness> harness_;
  std::vector<DeviceMemory> memory_;
};

constexpr int64_t kCount = 100'003;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

uint16_t RoundToBfloat16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t lower = bits & 0xffff;
  const uint32_t upper = bits >> 16;
  const bool up = lower > 0x8000 || (lower == 0x8000 && (upper & 1) != 0);
  return static_cast<uint16_t>(upper + (up ? 1 : 0));
}

const Fill kFills[] = {{Fill::Kind::kNormal, 0, 1},
                       {Fill::Kind::kNormal, 3, 0.25},
                       {Fill::Kind::kUniform, -2, 5},
                       {Fill::Kind::kConstant, 7, 0},
                       {Fill::Kind::kIota, 0, 0}};

TEST_F(HarnessGpuTest, FillsFloatsAsTheHostDoes) {
  const uint64_t key = FillKey(42, "x");
  for (const Fill& fill : kFills) {
    DeviceArray wide = Allocate(DType::kF64, kCount);
    DeviceArray single = Allocate(DType::kF32, kCount);
    DeviceArray narrow = Allocate(DType::kBF16, kCount);
    for (const DeviceArray& array : {wide, single, narrow}) {
      ASSERT_TRUE(harness_->Fill(array, fill, key).ok());
    }
    const auto doubles = Download<double>(wide);
    const auto floats = Download<float>(single);
    const auto shorts = Download<uint16_t>(narrow);
    int64_t different = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const float expected =
          FillFloat(static_cast<int>(fill.kind), static_cast<float>(fill.low),
                    static_cast<float>(fill.high), key, static_cast<unsigned long long>(i));
      const size_t at = static_cast<size_t>(i);
      different += BitsOf(floats[at]) != BitsOf(expected) ||
                   doubles[at] != static_cast<double>(expected) ||
                   shorts[at] != RoundToBfloat16(expected);
    }
    EXPECT_EQ(different, 0) << "fill kind " << static_cast<int>(fill.kind);
  }
}

TEST_F(HarnessGpuTest, FillsHalvesRoundedToNearestEven) {
  const uint64_t key = FillKey(42, "h");
  DeviceArray array = Allocate(DType::kF16, kCount);
  ASSERT_TRUE(harness_->Fill(array, kFills[0], key).ok());
  const auto halves = Download<uint16_t>(array);
  int64_t different = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const float expected = FillFloat(kFillNormal, 0, 1, key, static_cast<unsigned long long>(i));
    // Value of the half: sign, 5 bits of exponent, 10 of mantissa.
    const uint16_t bits = halves[static_cast<size_t>(i)];
    const int exponent = (bits >> 10) & 31;
    const double mantissa = bits & 1023;
    const double size =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    const double value = (bits & 0x8000) != 0 ? -size : size;
    const double half_step = std::ldexp(0.5, std::max(exponent, 1) - 25);
    different += std::abs(value - expected) > half_step;
  }
  EXPECT_EQ(different, 0);
}

TEST_F(HarnessGpuTest, FillsEightBitFloatsAsTheHostDoes) {
  const Fill fills[] = {{Fill::Kind::kNormal, 0, 1},
                        {Fill::Kind::kNormal, 0, 300},
                        {Fill::Kind::kUniform, -0.02, 0.02}};
  const uint64_t key = FillKey(42, "e");
  for (const Fill& fill : fills) {
    DeviceArray array = Allocate(DType::kE4M3, kCount);
    DeviceArray wide = Allocate(DType::kF32, kCount);
    ASSERT_TRUE(harness_->Fill(array, fill, key).ok());
    ASSERT_TRUE(harness_->Widen(wide, array).ok());
    std::vector<uint8_t> expected(kCount);
    std::vector<double> values(kCount);
    FillElements(DType::kE4M3, fill, key, 0, kCount, expected.data());
    LoadElements(DType::kE4M3, expected.data(), 0, kCount, values.data());
    EXPECT_EQ(Download<uint8_t>(array), expected) << fill.high;
    const auto floats = Download<float>(wide);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), floats.begin())) << fill.high;
  }
}

TEST_F(HarnessGpuTest, FillsIntegersAsTheHostDoes) {
  const uint64_t key = FillKey(42, "i");
  for (const Fill& fill : kFills) {
    DeviceArray wide = Allocate(DType::kI64, kCount);
    DeviceArray middle = Allocate(DType::kI32, kCount);
    DeviceArray narrow = Allocate(DType::kI8, kCount);
    for (const DeviceArray& array : {wide, middle, narrow}) {
      ASSERT_TRUE(harness_->Fill(array, fill, key).ok());
    }
    const auto longs = Download<int64_t>(wide);
    const auto ints = Download<int32_t>(middle);
    const auto bytes = Download<int8_t>(narrow);
    int64_t different = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const long long expected =
          FillInteger(static_cast<int>(fill.kind), static_cast<long long>(fill.low),
                      static_cast<long long>(fill.high), key, static_cast<unsigned long long>(i));
      const size_t at = static_cast<size_t>(i);
      different += longs[at] != expected || ints[at] != static_cast<int32_t>(expected) ||
                   bytes[at] != static_cast<int8_t>(expected);
    }
    EXPECT_EQ(different, 0) << "fill kind " << static_cast<int>(fill.kind);
  }
}

TEST_F(HarnessGpuTest, WidensExactly) {
  DeviceArray narrow = Allocate(DType::kBF16, kCount);
  DeviceArray wide = Allocate(DType::kF64, kCount);
  ASSERT_TRUE(harness_->Fill(narrow, kFills[0], 5).ok());
  ASSERT_TRUE(harness_->Widen(wide, narrow).ok());
  EXPECT_EQ(Compare(narrow, wide, {}).bad, 0u);
  EXPECT_EQ(harness_->Widen(narrow, wide).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HarnessGpuTest, ComparesWithTolerance) {
  std::vector<float> values(kCount, 2.0f);
  std::vector<double> references(kCount, 2.0);
  values[10] = 2.1f;       // within
  values[70'000] = 2.5f;   // out
  values[99'999] = -1.0f;  // worst
  DeviceArray out = Upload(DType::kF32, values);
  DeviceArray reference = Upload(DType::kF64, references);
  CompareResult result = Compare(out, reference, {/*rtol=*/0.05, /*atol=*/0.1});
  EXPECT_EQ(result.bad, 2u);
  EXPECT_EQ(result.nan, 0u);
  EXPECT_EQ(result.worst_index, 99'999u);
  EXPECT_EQ(result.worst_value, -1.0);
  EXPECT_EQ(result.worst_reference, 2.0);
  EXPECT_EQ(result.max_abs, 3.0);
  EXPECT_NEAR(result.max_rel, 1.5, 1e-6);
  EXPECT_NEAR(result.errors.medium, 9.0 + 0.25 + 0.01, 1e-5);
  EXPECT_NEAR(result.references.medium, 4.0 * kCount, 1e-6);
}

TEST_F(HarnessGpuTest, NanFailsAndEqualInfinitiesDoNot) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {1.0f, infinity, std::nanf(""), infinity, 1.0f};
  std::vector<double> references = {1.0, infinity, 1.0, 1.0, std::nan("")};
  CompareResult result = Compare(Upload(DType::kF32, values), Upload(DType::kF64, references),
                                 {/*rtol=*/0.1, /*atol=*/0.1});
  EXPECT_EQ(result.bad, 3u);
  EXPECT_EQ(result.nan, 2u);
  EXPECT_EQ(result.worst_index, 2u);
}

// Both devices compare with the same text; this also tests the compilers and the loads of each
// type.
TEST_F(HarnessGpuTest, SpecialValuesAreJudgedAsTheHostJudgesThem) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
  const std::vector<float> specials = {0.0f,      -0.0f,      1.0f,         -1.0f,    5.0f,
                                       1e-3f,     kDenormal,  -kDenormal,   kLargest, -kLargest,
                                       kInfinity, -kInfinity, std::nanf("")};
  const TolerancePlan kTolerances[] = {{},
                                       {.rtol = 1e-6},
                                       {.rtol = 1, .atol = 1e-3},
                                       {.atol = std::numeric_limits<double>::infinity()}};
  for (const float value : specials) {
    for (const float reference : specials) {
      const DeviceArray out = Upload<float>(DType::kF32, {2, value, 3});
      const DeviceArray wide = Upload<double>(DType::kF64, {2, double{reference}, 3});
      for (const TolerancePlan& tolerance : kTolerances) {
        CompareResult expected = {};
        const double values[] = {2, value, 3};
        const double references[] = {2, reference, 3};
        for (unsigned i = 0; i < 3; ++i) {
          AddElement(values[i], references[i], ErrorOf(values[i], references[i]), i, tolerance.rtol,
                     tolerance.atol, expected);
        }
        const CompareResult result = Compare(out, wide, tolerance);
        SCOPED_TRACE(testing::Message() << value << " beside " << reference);
        EXPECT_EQ(result.bad, expected.bad);
        EXPECT_EQ(result.nan, expected.nan);
        EXPECT_EQ(result.max_abs, expected.max_abs);
        EXPECT_EQ(result.worst_index, expected.worst_index);
        EXPECT_EQ(result.worst_excess, expected.worst_excess);
        EXPECT_EQ(RelativeNorm(result), RelativeNorm(expected));
      }
    }
  }
}

TEST_F(HarnessGpuTest, ComparesIntegersExactly) {
  const int64_t large = (int64_t{1} << 53) + 1;  // the double beside it is 2^53
  DeviceArray a = Upload<int64_t>(DType::kI64, {1, large, 3});
  DeviceArray b = Upload<int64_t>(DType::kI64, {1, large - 1, 3});
  EXPECT_EQ(Compare(a, a, {}).bad, 0u);
  CompareResult result = Compare(a, b, {});
  EXPECT_EQ(result.bad, 1u);
  EXPECT_EQ(result.worst_index, 1u);
}

TEST_F(HarnessGpuTest, HashSeesEveryByte) {
  std::vector<uint8_t> bytes(100'005);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31);
  DeviceArray array = Upload(DType::kU8, bytes);
  const uint64_t hash = Hash(array);
  EXPECT_EQ(Hash(array), hash);
  for (size_t at : {size_t{0}, size_t{7}, size_t{50'001}, size_t{99'999}, size_t{100'004}}) {
    std::vector<uint8_t> changed = bytes;
    changed[at] ^= 1;
    EXPECT_NE(Hash(Upload(DType::kU8, changed)), hash) << at;
  }
  std::swap(bytes[8], bytes[16]);
  EXPECT_NE(Hash(Upload(DType::kU8, bytes)), hash) << "order";
}

TEST_F(HarnessGpuTest, Canary) { EXPECT_TRUE(harness_->RunCanary().ok()); }

}  // namespace
}  // namespace tune::cuda
