// SPDX-License-Identifier: Apache-2.0
// The sentences about evidence that is made up.
#include "server/comparison/comparison_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tune::server {
namespace {

using testing::ElementsAre;

ComparedFindings Kernel(const std::string& label, double ratio, int64_t n = 64,
                        Outcome agreement = Outcome::kOk) {
  return {.row = {.label = label,
                  .problem = {.dims = {{"n", n}}, .dtype = DType::kF32},
                  .agreement = agreement},
          .ratio = {.ratio = ratio, .low = ratio - 0.01, .high = ratio + 0.01}};
}

TEST(ComparisonVerdictTest, AKernelIsFasterOrSlowerOrNotTold) {
  const ComparisonEvidence evidence{.problems = {{Kernel("softmax", 1), Kernel("quick", 0.5),
                                                  Kernel("slow", 2), Kernel("like", 1)}}};
  EXPECT_THAT(VerdictsOf(evidence),
              ElementsAre("quick is faster than softmax: 0.500 of its time [0.490, 0.510]",
                          "slow is slower than softmax: 2.000 of its time [1.990, 2.010]",
                          "like is not told from softmax: 1.000 of its time [0.990, 1.010]"));
}

TEST(ComparisonVerdictTest, AKernelWithOtherResultsIsNotJudgedByItsTime) {
  const ComparisonEvidence evidence{
      .problems = {{Kernel("softmax", 1), Kernel("wrong", 0.249, 64, Outcome::kWrongResult)}}};
  EXPECT_THAT(VerdictsOf(evidence),
              ElementsAre("wrong is not judged: its results differ from those of softmax"));
}

TEST(ComparisonVerdictTest, ItIsJudgedWhereItsResultsAreTheSame) {
  ComparisonEvidence evidence{
      .problems = {{Kernel("softmax", 1, 64), Kernel("other", 0.5, 64)},
                   {Kernel("softmax", 1, 128), Kernel("other", 0.1, 128, Outcome::kWrongResult)}}};
  evidence.run.sweep_dim = "n";
  EXPECT_THAT(VerdictsOf(evidence),
              ElementsAre("other takes 0.500 of softmax's time in the geometric mean of 1 problem: "
                          "faster at all of them, not judged at n=128, where its results differ"));
  evidence.problems[0][1] = Kernel("other", 0.5, 64, Outcome::kWrongResult);
  EXPECT_THAT(VerdictsOf(evidence),
              ElementsAre("other is not judged: its results differ from those of softmax"));
}

}  // namespace
}  // namespace tune::server
