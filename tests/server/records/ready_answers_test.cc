// SPDX-License-Identifier: Apache-2.0
#include "server/records/ready_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

std::string TextAt(const ReadyAnswers& answers, const std::string& question, uint64_t version) {
  const auto found = answers.Find(question, version);
  if (!found) return "nothing";
  grpc::Slice slice;
  EXPECT_TRUE(found->DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

TEST(ReadyAnswersTest, AnAnswerLastsAsLongAsItsVersion) {
  ReadyAnswers answers;
  EXPECT_EQ(TextAt(answers, "a?", 1), "nothing");
  answers.Keep("a?", 1, Bytes("a"));
  answers.Keep("b?", 1, Bytes("b"));
  EXPECT_EQ(TextAt(answers, "a?", 1), "a");
  EXPECT_EQ(TextAt(answers, "a?", 2), "nothing");
  EXPECT_EQ(TextAt(answers, "c?", 1), "nothing");
  answers.Keep("a?", 2, Bytes("another"));
  EXPECT_EQ(TextAt(answers, "a?", 2), "another");
  EXPECT_EQ(TextAt(answers, "b?", 2), "nothing") << "it was of another version";
}

TEST(ReadyAnswersTest, WhatItKeepsIsBounded) {
  ReadyAnswers answers;
  answers.Keep("large", 1, Bytes(std::string(ReadyAnswers::kAnswerBytesMax, 'x')));
  EXPECT_EQ(answers.count(), 0u);
  const std::string answer(1 << 14, 'x');
  const size_t fit = ReadyAnswers::kBytesMax / answer.size();
  size_t most = 0;
  for (size_t i = 0; i < 3 * fit; ++i) {
    answers.Keep(absl::StrCat(i), 1, Bytes(answer));
    ASSERT_EQ(TextAt(answers, absl::StrCat(i), 1), answer);
    most = std::max(most, answers.count());
  }
  EXPECT_LE(most, fit);
  EXPECT_GT(most, fit / 2);
}

}  // namespace
}  // namespace tune::server
