// SPDX-License-Identifier: Apache-2.0
#include "client/cli/dim_flags.h"

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

TEST(ParseDimSweep, TakesRangesAndLists) {
  const auto values = [](const char* text) { return ParseDimSweep(text, 64)->values; };
  EXPECT_EQ(ParseDimSweep("seq=512..2048", 64)->dim, "seq");
  EXPECT_THAT(values("seq=512..4096"), ElementsAre(512, 1024, 2048, 4096));
  EXPECT_THAT(values("seq=512..4000"), ElementsAre(512, 1024, 2048));
  EXPECT_THAT(values("seq=1Ki..2Ki:512"), ElementsAre(1024, 1536, 2048));
  EXPECT_THAT(values("seq=7,5,4k"), ElementsAre(7, 5, 4000));
  EXPECT_THAT(values("seq=9"), ElementsAre(9));
}

TEST(ParseDimSweep, RefusesWhatIsNone) {
  for (const char* text : {"", "seq", "seq=", "=1..2", "seq=0..8", "seq=8..4", "seq=1..8:0",
                           "seq=1..8:2:3", "seq=1..x", "seq=1,,2", "seq=..", "seq=-4..8"}) {
    EXPECT_EQ(ParseDimSweep(text, 64).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ParseDimSweep("n=1..1000:1", 64).status().message(), HasSubstr("more than 64"));
}

TEST(ParseDims, TakesSuffixes) {
  auto dims = ParseDims({{"a", "4096"},
                         {"b", "4k"},
                         {"c", "4Ki"},
                         {"d", "2Mi"},
                         {"e", "-1"},
                         {"f", "1e6"},
                         {"g", "1K"}});
  ASSERT_TRUE(dims.ok());
  EXPECT_THAT(*dims,
              ElementsAre(Pair("a", 4096), Pair("b", 4000), Pair("c", 4096), Pair("d", 2 << 20),
                          Pair("e", -1), Pair("f", 1'000'000), Pair("g", 1000)));
}

TEST(ParseDims, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "x", "4.5", "4kk", "9223372036854775807k", "0x10", "1.5e0", "1e20", "e"}) {
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
  dim = spec.add_dims();
  dim->set_name("keys");
  dim->set_doc("key length");
  dim->set_default_dim("seq");
  EXPECT_THAT(DimHelp(spec), HasSubstr("key length (default: --seq)"));
}

}  // namespace
}  // namespace tune::client
