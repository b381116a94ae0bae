// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/space_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/server/test_server.h"

namespace tune::server {
namespace {

using ::testing::HasSubstr;

constexpr char kDefinition[] = R"json({
  "tune_params": {"BX": [16, 32, 64], "BY": [1, 2, 4], "MODE": ["a", "b"]},
  "restrictions": ["BX * BY <= 64", "BX != 16 or BY != 1", "BX < 100"]})json";

class SpaceQueryTest : public testing::Test {
 protected:
  absl::Status Describe(const v1::SpaceSource& source, bool details = true) {
    v1::DescribeSpaceRequest request;
    *request.mutable_space() = source;
    request.set_details(details);
    description_.Clear();
    return DescribeSpace(request, Catalogue(), {"sm_90a", "cpu"}, description_);
  }
  absl::Status Sample(const v1::SpaceSource& source, uint32_t count, uint64_t seed) {
    v1::SampleSpaceRequest request;
    *request.mutable_space() = source;
    request.set_count(count);
    request.set_seed(seed);
    sample_.Clear();
    return SampleSpace(request, Catalogue(), {"cpu"}, sample_);
  }
  static v1::SpaceSource Definition(const std::string& json) {
    v1::SpaceSource source;
    source.set_definition_json(json);
    return source;
  }

  v1::DescribeSpaceResponse description_;
  v1::SampleSpaceResponse sample_;
};

TEST_F(SpaceQueryTest, DescribesADefinition) {
  ASSERT_TRUE(Describe(Definition(kDefinition)).ok());
  EXPECT_EQ(description_.product(), 18);
  EXPECT_EQ(description_.valid(), 10);  // 16: 2, 4; 32: 1, 2; 64: 1; twice for the mode
  EXPECT_TRUE(description_.exact());
  EXPECT_FALSE(description_.has_problem());
  ASSERT_EQ(description_.components_size(), 2);
  EXPECT_EQ(description_.components(0).params_size(), 2);
  EXPECT_EQ(description_.components(0).valid(), 5);
  EXPECT_EQ(description_.params(0).values(1).value().integer(), 32);
  EXPECT_EQ(description_.params(0).values(1).valid(), 4);
  EXPECT_EQ(description_.params(2).values(0).valid(), 5);
  ASSERT_EQ(description_.constraints_size(), 3);
  EXPECT_EQ(description_.constraints(0).text(), "'BX * BY <= 64'");
  EXPECT_EQ(description_.constraints(0).rejects(), 6);
  EXPECT_EQ(description_.constraints(0).rejects_alone(), 6);
  EXPECT_EQ(description_.constraints(1).rejects(), 2);
  EXPECT_EQ(description_.constraints(2).rejects(), 0);
  ASSERT_TRUE(Describe(Definition(kDefinition), false).ok());
  EXPECT_EQ(description_.params_size() + description_.constraints_size(), 0);
}

TEST_F(SpaceQueryTest, DescribesAKernelForAProblemAndTarget) {
  v1::SpaceSource source;
  *source.mutable_kernel_source() = ScaleKernel();
  ASSERT_TRUE(Describe(source).ok());
  EXPECT_EQ(description_.valid(), 8);
  EXPECT_EQ(description_.target(), "sm_90a") << "the first of the host's";
  EXPECT_EQ(description_.problem().dims(0).value(), 4096);
  (*source.mutable_dims())["n"] = 64;
  source.set_target("cpu");
  ASSERT_TRUE(Describe(source).ok());
  EXPECT_EQ(description_.valid(), 4);
  EXPECT_EQ(description_.target(), "cpu");
  source.set_target("toaster");
  EXPECT_TRUE(absl::IsInvalidArgument(Describe(source)));
}

TEST_F(SpaceQueryTest, SamplesEachConfigOnceAndBySeed) {
  ASSERT_TRUE(Sample(Definition(kDefinition), 4, 1).ok());
  ASSERT_EQ(sample_.configs_size(), 4);
  const std::string first = sample_.SerializeAsString();
  ASSERT_TRUE(Sample(Definition(kDefinition), 4, 1).ok());
  EXPECT_EQ(sample_.SerializeAsString(), first);
  ASSERT_TRUE(Sample(Definition(kDefinition), 4, 2).ok());
  EXPECT_NE(sample_.SerializeAsString(), first);
  ASSERT_TRUE(Sample(Definition(kDefinition), 100, 3).ok());
  std::set<std::string> all;
  for (const v1::Config& config : sample_.configs()) all.insert(config.SerializeAsString());
  EXPECT_EQ(all.size(), 10);
  EXPECT_EQ(sample_.configs_size(), 10);
  const std::string many = R"json({"tune_params": {"A": "range(0, 4000)"}})json";
  ASSERT_TRUE(Sample(Definition(many), 50, 3).ok());
  EXPECT_EQ(sample_.configs_size(), 50);
}

TEST_F(SpaceQueryTest, SaysWhatIsWrong) {
  EXPECT_THAT(std::string(Describe(v1::SpaceSource()).message()), HasSubstr("no space"));
  const std::string empty = R"json({"tune_params": {"A": [1, 2], "B": [1, 2]},
                                    "restrictions": ["A > B", "B > A"]})json";
  EXPECT_THAT(
      std::string(Describe(Definition(empty)).message()),
      HasSubstr("no config is valid: constraints 'A > B' and 'B > A' reject every one together"));
  EXPECT_TRUE(absl::IsInvalidArgument(Describe(Definition(std::string((1 << 20) + 1, ' ')))));
  v1::SpaceSource source = Definition(kDefinition);
  (*source.mutable_dims())["n"] = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Describe(source)));
  EXPECT_TRUE(absl::IsInvalidArgument(Sample(Definition(kDefinition), 0, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(Sample(Definition(kDefinition), 10001, 1)));
}

}  // namespace
}  // namespace tune::server
