// SPDX-License-Identifier: Apache-2.0
#include "client/dim_flags.h"

#include <gmock/gmock.h>

namespace tune::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(SplitDims, LeavesKnownFlagsAndPositionals) {
  auto split = SplitDims({"sweep", "attention", "--seq", "4096", "--budget", "30s", "--causal=1"},
                         {"budget"});
  ASSERT_TRUE(split.ok());
  EXPECT_THAT(split->known, ElementsAre("sweep", "attention", "--budget", "30s"));
  EXPECT_THAT(split->dims, UnorderedElementsAre(Pair("seq", "4096"), Pair("causal", "1")));
}

TEST(SplitDims, AValueMayBeNegative) {
  auto split = SplitDims({"sweep", "k", "--shift", "-3"}, {});
  ASSERT_TRUE(split.ok());
  EXPECT_THAT(split->dims, ElementsAre(Pair("shift", "-3")));
}

TEST(SplitDims, RefusesAMissingValueAndARepeatedDim) {
  EXPECT_THAT(SplitDims({"sweep", "k", "--seq"}, {}).status().message(),
              HasSubstr("--seq needs a value"));
  EXPECT_THAT(SplitDims({"sweep", "k", "--seq", "--rows", "2"}, {}).status().message(),
              HasSubstr("--seq needs a value"));
  EXPECT_THAT(SplitDims({"sweep", "k", "--seq", "1", "--seq", "2"}, {}).status().message(),
              HasSubstr("given twice"));
}

TEST(ParseDims, TakesSuffixes) {
  auto dims = ParseDims({{"a", "4096"}, {"b", "4k"}, {"c", "4Ki"}, {"d", "2Mi"}, {"e", "-1"}});
  ASSERT_TRUE(dims.ok());
  EXPECT_THAT(*dims, ElementsAre(Pair("a", 4096), Pair("b", 4000), Pair("c", 4096),
                                 Pair("d", 2 << 20), Pair("e", -1)));
}

TEST(ParseDims, RefusesWhatIsNoSize) {
  for (const char* text : {"", "x", "4.5", "4kk", "9223372036854775807k", "0x10"}) {
    EXPECT_EQ(ParseDims({{"seq", text}}).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(ParseDims({{"budgt", "30s"}}).status().message(), HasSubstr("--budgt '30s'"));
}

TEST(DimHelp, ShowsDefaultsByTarget) {
  v1::KernelSpec spec;
  v1::Dim* dim = spec.add_dims();
  dim->set_name("seq");
  dim->set_doc("query length");
  dim->set_default_value(4096);
  v1::DimOn* on = dim->add_on();
  on->set_target("cpu");
  on->set_default_value(512);
  EXPECT_THAT(DimHelp(spec), HasSubstr("--seq INT"));
  EXPECT_THAT(DimHelp(spec), HasSubstr("query length (default 4096; on cpu 512)"));
}

}  // namespace
}  // namespace tune::client
