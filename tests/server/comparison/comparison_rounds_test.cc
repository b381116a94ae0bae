// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/measure/fake_session.h"
#include "tuner/device/problem_checks.h"

namespace tune::server {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::SizeIs;

BufferPlan Buffer(const std::string& name, Role role, int64_t count = 4) {
  return {.name = name, .dtype = DType::kF32, .count = count, .role = role};
}

// A kernel that reads "x" and writes an output.
Variant Compared(const std::string& binary, const BufferPlan& output) {
  Variant variant;
  variant.problem.buffers = {Buffer("x", Role::kInput), output};
  variant.plan.steps = {{.args = {variant.problem.buffers[0], output}}};
  variant.compiled.artifact.binary = binary;
  return variant;
}

class ComparisonRoundsTest : public testing::Test {
 protected:
  FakeSession session_;
  const Variant first_ = Compared("first", Buffer("y", Role::kOutput));
  // The first twin is a peer's, which has no process.
  ComparisonRounds rounds_{session_, {1, 2}, {.samples_max = 9}, /*seed=*/5};
};

TEST_F(ComparisonRoundsTest, ARoundHasFreshProcessesOfAllKernels) {
  EXPECT_TRUE(rounds_.Renew().ok());
  EXPECT_EQ(rounds_.Measure(2, first_)->samples_ns.size(), 5u);
  EXPECT_THAT(session_.calls, ElementsAre("renew 1,2", "prepare 2 alone", "measure 2"));
  EXPECT_THAT(session_.seeds, ElementsAre(5));
  EXPECT_EQ(session_.measured[0].policy.samples_max, 9);
}

TEST_F(ComparisonRoundsTest, AKernelThatCannotBePreparedIsNotRun) {
  session_.prepare = [](size_t) { return absl::ResourceExhaustedError("no room"); };
  const RunReport report = rounds_.Measure(1, first_).value();
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_EQ(report.message, "no room");
  EXPECT_EQ(rounds_.Judge(first_, {})->outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(rounds_.CheckOthers(first_, {&first_, &first_}).value(),
              testing::AllOf(SizeIs(2), Each(Field(&RunReport::message, "no room"))));
}

TEST_F(ComparisonRoundsTest, ADeviceThatIsLostEndsTheComparison) {
  session_.prepare = [](size_t) { return absl::FailedPreconditionError("quarantined"); };
  EXPECT_FALSE(rounds_.Measure(1, first_).ok());
  EXPECT_FALSE(rounds_.Judge(first_, {}).ok());
  EXPECT_FALSE(rounds_.CheckOthers(first_, {&first_}).ok());
}

TEST_F(ComparisonRoundsTest, OthersAreCheckedOnTheFirstsProblemInItsProcess) {
  const Variant other = Compared("other", Buffer("y", Role::kOutput));
  const Variant renamed = Compared("renamed", Buffer("z", Role::kOutput));
  const Variant larger = Compared("larger", Buffer("y", Role::kOutput, 8));
  const std::vector<RunReport> reports =
      rounds_.CheckOthers(first_, {&other, &renamed, &larger}).value();
  ASSERT_THAT(reports, SizeIs(3));
  EXPECT_EQ(reports[0].outcome, Outcome::kOk);
  EXPECT_EQ(reports[2].outcome, Outcome::kInvalidConfig);
  EXPECT_THAT(reports[2].message, HasSubstr("'y' is 8 f32, the first kernel's is 4 f32"));
  EXPECT_THAT(session_.calls, ElementsAre("prepare 1 alone", "measure 1", "measure 1"));
  ASSERT_THAT(session_.measured, SizeIs(2));
  EXPECT_EQ(session_.measured[0].program.binary, "other");
  EXPECT_EQ(session_.measured[0].policy.samples_max, 1);
  // An output that the first kernel does not have is scratch.
  const auto* output = BufferOf(session_.measured[1].program.steps[0].args[1]);
  ASSERT_NE(output, nullptr);
  EXPECT_EQ(output->role, Role::kScratch);
}

}  // namespace
}  // namespace tune::server
