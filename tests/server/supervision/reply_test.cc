// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/reply.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tune::server {
namespace {

using worker::v1::WorkerReply;

bool Parses(const std::string& payload) {
  WorkerReply reply;
  return ParseReply(payload, reply);
}

// `size` bytes of `pattern` as a field of that number.
std::string Field(int number, size_t size, const std::string& pattern) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  for (size_t left = size; true; left >>= 7) {
    text += static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    if (left <= 0x7f) break;
  }
  const size_t head = text.size();
  while (text.size() < head + size) text += pattern;
  text.resize(head + size);
  return text;
}

TEST(ReplyTest, OnlyAnArtifactMayBeLong) {
  worker::v1::WorkerRequest request;
  request.mutable_run();
  EXPECT_EQ(ReplyFrameBytesMax(request), kReplyBytesMax);
  request.mutable_hello();
  EXPECT_EQ(ReplyFrameBytesMax(request), kReplyBytesMax);
  request.mutable_compile();
  EXPECT_GT(ReplyFrameBytesMax(request), kReplyBytesMax);
}

TEST(ReplyTest, ABinaryAndItsLogMayBeLong) {
  WorkerReply reply;
  reply.mutable_compiled()->set_binary(std::string(20 << 20, 'b'));
  reply.mutable_compiled()->set_log(std::string(2 << 20, 'l'));
  WorkerReply copy;
  ASSERT_TRUE(ParseReply(reply.SerializeAsString(), copy));
  EXPECT_EQ(copy.compiled().binary().size(), size_t{20} << 20);
  EXPECT_EQ(copy.compiled().log().size(), size_t{2} << 20);
}

TEST(ReplyTest, WhatGrowsWhenItIsParsedMayNot) {
  const size_t much = 4 << 20;
  EXPECT_FALSE(Parses(Field(5, much, std::string("\x0a\0", 2)))) << "empty ceilings";
  EXPECT_FALSE(Parses(Field(9, much, std::string("\x3a\0", 2)))) << "empty counter readings";
  EXPECT_FALSE(Parses(Field(8, much, std::string("\x19\0\0\0\0\0\0\xf0\x3f", 9)))) << "samples";
  EXPECT_FALSE(Parses(Field(2, much, "x"))) << "a message";
  EXPECT_FALSE(Parses(Field(15, much, std::string("\x08\x01", 2)))) << "fields that do not exist";
  EXPECT_FALSE(Parses(Field(4, much, std::string("\x78\x01", 2)))) << "the same in a compile";
  std::string many;
  while (many.size() < much) many += std::string("\x22\0", 2);
  EXPECT_FALSE(Parses(many)) << "empty artifacts";
  WorkerReply honest;
  for (int i = 0; i < 1000; ++i) honest.mutable_run()->add_samples_ns(i + 1);
  EXPECT_TRUE(Parses(honest.SerializeAsString()));
}

TEST(ReplyTest, WhatIsCutOffOrChangedIsRefusedOrParsed) {
  WorkerReply reply;
  reply.mutable_compiled()->set_binary(std::string(2 << 20, 'b'));
  reply.mutable_compiled()->mutable_resources()->set_registers(7);
  const std::string whole = reply.SerializeAsString();
  std::mt19937 random(1);
  for (size_t size : {size_t{1}, size_t{5}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_FALSE(Parses(whole.substr(0, size))) << size;
  }
  for (int i = 0; i < 200; ++i) {
    std::string changed = whole;
    const size_t near_an_end = random() % 32;
    const size_t at = random() % 2 != 0 ? near_an_end : whole.size() - 1 - near_an_end;
    changed[at] = static_cast<char>(random());
    Parses(changed);  // and the sanitizers have nothing to say
  }
}

}  // namespace
}  // namespace tune::server
