// SPDX-License-Identifier: Apache-2.0
// What kernels that are compared are given: the first's inputs, whatever fills them.
#include "server/comparison/shared_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tuner/device/problem_checks.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

BufferPlan Input(const std::string& name, Fill fill = {}) {
  return {.name = name, .dtype = DType::kI32, .count = 4, .fill = std::move(fill), .shape = {4}};
}

ProblemPlan ProblemOf(std::vector<BufferPlan> inputs) {
  ProblemPlan plan;
  plan.buffers = std::move(inputs);
  plan.buffers.push_back({.name = "y", .count = 4, .role = Role::kOutput});
  return plan;
}

BufferFile FileFor(const std::string& buffer, char byte) {
  return {.buffer = buffer, .dtype = DType::kI32, .elements = std::string(16, byte)};
}

// A problem whose reference is a function on the host.
ProblemPlan OnTheHost(ProblemPlan plan) {
  plan.host_reference.entries = {"right"};
  plan.host_reference.call.buffers = plan.buffers;
  plan.host_reference.call.files = plan.files;
  return plan;
}

std::vector<std::string> Share(const ProblemPlan& first, ProblemPlan& problem) {
  std::vector<std::string> notes;
  EXPECT_TRUE(ShareInputs(first, problem, notes).ok());
  return notes;
}

TEST(ShareInputsTest, AFileOfTheFirstGoesBeforeAFill) {
  ProblemPlan first = ProblemOf({Input("x")});
  first.files = {FileFor("x", 'a')};
  ProblemPlan problem = OnTheHost(ProblemOf({Input("x", {.kind = Fill::Kind::kIota})}));
  EXPECT_THAT(Share(first, problem), ElementsAre("'x' is filled as the first kernel's spec says"));
  ASSERT_NE(FileOf(problem, "x", /*expected=*/false), nullptr);
  EXPECT_EQ(FileOf(problem, "x", /*expected=*/false)->elements, first.files[0].elements);
  ASSERT_EQ(problem.host_reference.call.files.size(), 1u);
  EXPECT_EQ(problem.host_reference.call.files[0].elements, first.files[0].elements);
  EXPECT_THAT(Share(first, problem), IsEmpty()) << "they are the same now";
}

TEST(ShareInputsTest, AFillOfTheFirstReplacesAFile) {
  const ProblemPlan first = ProblemOf({Input("x", {.kind = Fill::Kind::kConstant, .low = 2})});
  ProblemPlan problem = ProblemOf({Input("x")});
  problem.files = {FileFor("x", 'b')};
  problem = OnTheHost(std::move(problem));
  EXPECT_THAT(Share(first, problem), ElementsAre(HasSubstr("'x' is filled as the first")));
  EXPECT_THAT(problem.files, IsEmpty());
  const HostCall& call = problem.host_reference.call;
  EXPECT_THAT(call.files, IsEmpty());
  EXPECT_EQ(call.buffers[0].fill.kind, Fill::Kind::kConstant);
  EXPECT_EQ(call.buffers[0].fill.low, 2);
}

TEST(ShareInputsTest, FilesAreOfTheSameElementsOrReplaced) {
  ProblemPlan first = ProblemOf({Input("x")});
  first.files = {FileFor("x", 'a')};
  ProblemPlan same = first;
  EXPECT_THAT(Share(first, same), IsEmpty());
  ProblemPlan other = first;
  other.files = {FileFor("x", 'b')};
  EXPECT_THAT(Share(first, other), ElementsAre(HasSubstr("'x' is filled as the first")));
  ASSERT_EQ(other.files.size(), 1u);
  EXPECT_EQ(other.files[0].elements, first.files[0].elements);
}

TEST(ShareInputsTest, EveryPartOfAFillCounts) {
  const Fill offsets = {.kind = Fill::Kind::kOffsets, .lengths = {1, 2}};
  const Fill columns = {
      .kind = Fill::Kind::kCsrColumns, .high = 4, .rows = 2, .columns = 8, .key = "rows"};
  Fill other_offsets = offsets;
  other_offsets.lengths = {2, 1};
  std::vector<std::pair<Fill, Fill>> pairs = {{offsets, other_offsets}};
  pairs.resize(4, {columns, columns});
  pairs[1].second.rows = 4;
  pairs[2].second.columns = 16;
  pairs[3].second.key = "others";
  for (size_t i = 0; i < pairs.size(); ++i) {
    const ProblemPlan first = ProblemOf({Input("x", pairs[i].first)});
    ProblemPlan problem = ProblemOf({Input("x", pairs[i].second)});
    EXPECT_THAT(Share(first, problem), ElementsAre(HasSubstr("'x' is filled as the first"))) << i;
    EXPECT_THAT(Share(first, problem), IsEmpty()) << i << ": they are the same now";
  }
}

TEST(ShareInputsTest, ThePlainFillOfAnotherShapeIsTheSame) {
  const ProblemPlan first = ProblemOf({Input("x", {.rows = 1, .columns = 4})});
  ProblemPlan problem = ProblemOf({Input("x", {.rows = 2, .columns = 2})});
  EXPECT_THAT(Share(first, problem), IsEmpty());
}

TEST(ShareInputsTest, WhatTheFirstHasNotOrHasOtherwiseIsItsOwn) {
  BufferPlan larger = Input("x", {.kind = Fill::Kind::kOneHot});
  larger.count = 8;
  ProblemPlan first = ProblemOf({larger});
  first.files = {FileFor("x", 'a')};
  ProblemPlan problem = ProblemOf({Input("x"), Input("z")});
  EXPECT_THAT(Share(first, problem), ElementsAre(HasSubstr("'x' is not of the first kernel's size"),
                                                 "the first kernel has no input 'z'"));
  EXPECT_EQ(problem.buffers[0].fill.kind, Fill::Kind::kNormal);
  EXPECT_THAT(problem.files, IsEmpty());
}

TEST(ShareInputsTest, AFileOfWhatIsRightHoldsOfItsOwnInputsAlone) {
  const ProblemPlan first = ProblemOf({Input("x", {.kind = Fill::Kind::kIota})});
  ProblemPlan problem = ProblemOf({Input("x")});
  problem.files = {FileFor("y", 'r')};
  problem.files[0].expected = true;
  ProblemPlan same = problem;
  std::vector<std::string> notes;
  EXPECT_TRUE(ShareInputs(same, problem, notes).ok());
  const absl::Status shared = ShareInputs(first, problem, notes);
  EXPECT_EQ(shared.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shared.message()),
              HasSubstr("what is right of 'y' does not hold of the first kernel's x"));
}

TEST(AddInputsTest, AnInputThatOnlyAnotherHasComesWithItsFile) {
  ProblemPlan problem = ProblemOf({Input("x")});
  ProblemPlan other = ProblemOf({Input("x"), Input("z")});
  other.files = {FileFor("x", 'a'), FileFor("y", 'r'), FileFor("z", 'b')};
  other.files[1].expected = true;
  AddInputs(other, problem);
  ASSERT_NE(FindBuffer(problem, "z"), nullptr);
  ASSERT_EQ(problem.files.size(), 1u);
  EXPECT_EQ(problem.files[0].buffer, "z");
  EXPECT_EQ(problem.files[0].elements, other.files[2].elements);
}

}  // namespace
}  // namespace tune::server
