// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace tune::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunNotesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder_, "/", name)) << text;
  }
  // A line of a process about a key.
  static std::string Key(const std::string& key, const std::string& state,
                         const std::string& why = "") {
    const nlohmann::json line = {{"function", "m.f"}, {"key", key}, {"state", state}, {"why", why}};
    return line.dump() + "\n";
  }

  std::string folder_ = "/tmp/tune-notes-XXXXXX";
};

TEST_F(RunNotesTest, TheLastStateOfAKeyInAProcessCounts) {
  Write("1.jsonl", Key("a", "left", "no record") + Key("a", "sent") + Key("b", "answered"));
  Write("2.jsonl", Key("a", "left") + Key("b", "answered"));
  const RunNotes notes = ReadRunNotes(folder_);
  EXPECT_EQ(notes.processes, 2);
  EXPECT_EQ(notes.keys.at({"m.f", "a"}).state(), kSent) << "one process has sent it for all";
  EXPECT_EQ(notes.keys.at({"m.f", "b"}).state(), kAnswered);
  EXPECT_EQ(notes.unreadable, 0);
}

TEST_F(RunNotesTest, AKeyThatOneProcessLeftIsNotAnswered) {
  Write("1.jsonl", Key("a", "answered"));
  Write("2.jsonl", Key("a", "left", "it was pruned"));
  const RunNotes notes = ReadRunNotes(folder_);
  EXPECT_EQ(notes.keys.at({"m.f", "a"}).state(), kLeft);
  EXPECT_THAT(SummaryText(notes, "sha256:1", ""),
              HasSubstr("left alone: 1\n    m.f: it was pruned\n"));
}

TEST_F(RunNotesTest, LinesAndFilesThatAreNoNotesAreCounted) {
  Write("1.jsonl",
        "\n{\n[]\n3\n{\"function\": 1, \"state\": \"sent\"}\n{\"first_launch_seconds\": \"x\"}\n" +
            Key("a", "gone") + Key("a", "answered"));
  Write("2.txt", Key("b", "answered"));
  std::filesystem::create_symlink(folder_ + "/2.txt", folder_ + "/3.jsonl");
  const RunNotes notes = ReadRunNotes(folder_);
  EXPECT_EQ(notes.unreadable, 6);
  EXPECT_EQ(notes.keys.size(), 1);
}

TEST_F(RunNotesTest, TheSlowestProcessIsTheTimeOfFirstLaunches) {
  Write("1.jsonl", "{\"first_launch_seconds\": 1}\n{\"first_launch_seconds\": 2.5}\n");
  Write("2.jsonl", "{\"first_launch_seconds\": 3}\n");
  EXPECT_EQ(ReadRunNotes(folder_).first_launch_seconds, 3.5);
}

TEST_F(RunNotesTest, WithoutTritonThereIsNoText) {
  EXPECT_EQ(SummaryText(ReadRunNotes(folder_), "", "no daemon"), "");
  EXPECT_EQ(SummaryText(ReadRunNotes("/nowhere"), "", ""), "");
  Write("1.jsonl", "{\"process\": \"train.py\"}\n");
  EXPECT_THAT(
      SummaryText(ReadRunNotes(folder_), "", "no daemon"),
      HasSubstr(
          "0 autotuned Triton kernels with 0 keys in 1 process, without records (no daemon)"));
}

TEST_F(RunNotesTest, TheTextShowsTwentyOfTheKernelsThatWereLeft) {
  std::string text;
  for (int i = 0; i < 30; ++i) {
    text += Key(absl::StrCat("k", i), "left", absl::StrCat("reason ", 100 + i));
  }
  Write("1.jsonl", text);
  const RunNotes notes = ReadRunNotes(folder_);
  EXPECT_THAT(SummaryText(notes, "", "none"),
              HasSubstr("reason 119\n    and 10 more; --summary has all\n"));
  EXPECT_THAT(SummaryText(notes, "", "none"), Not(HasSubstr("reason 120")));
  const auto json = nlohmann::json::parse(SummaryJson(notes, "sha256:1", 7));
  EXPECT_EQ(json["keys"].size(), 30);
  EXPECT_EQ(json["left"], 30);
  EXPECT_EQ(json["exit_code"], 7);
}

}  // namespace
}  // namespace tune::client
