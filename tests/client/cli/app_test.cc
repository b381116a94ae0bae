// SPDX-License-Identifier: Apache-2.0
#include "client/cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"

namespace tune::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

absl::Status CheckDimNamed(const std::string& name) {
  const std::string spec = absl::StrReplaceAll(R"spec(name: "k" source: "k.cu" entry: "k"
dims { name: "NAME" default_value: 1000 }
dtypes: "f32"
args { name: "y" buffer { dtype: "f32" shape: "NAME" role: ROLE_OUTPUT } }
launch { grid: "1" block: "32" }
work { bytes: "8 * NAME" }
reference { entry: "r" launch { grid: "1" block: "1" } }
)spec",
                                               {{"NAME", name}});
  return server::ReadKernel("k.textproto", spec, {{"k.cu", "text"}}).status();
}

// A dim would never get what its flag is given.
TEST(FlagsBesideDims, NoneIsTheNameOfADim) {
  const std::set<std::string> flags = FlagsBesideDims();
  EXPECT_THAT(flags, IsSupersetOf({"address", "all", "budget", "device", "help", "json", "retune",
                                   "version"}));
  ASSERT_TRUE(CheckDimNamed("n").ok()) << CheckDimNamed("n");
  for (const std::string& flag : flags) {
    if (flag.find('-') != std::string::npos) continue;  // no name in a spec
    EXPECT_THAT(std::string(CheckDimNamed(flag).message()), HasSubstr(flag))
        << "--" << flag << " is not in the list of tuner/kernel/spec_checker.cc";
  }
}

constexpr auto kNoServer = [](auto&&...) -> absl::StatusOr<std::unique_ptr<EmbeddedServer>> {
  return absl::InternalError("this test has no server");
};

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

Ran Tunectl(std::vector<std::string> words) {
  words.insert(words.begin(), "tunectl");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.code = RunTunectl(static_cast<int>(argv.size()), argv.data(), {kNoServer, kNoServer});
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  return ran;
}

TEST(TunectlTest, WhatIsMistypedIsSuggested) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"swep", "softmax"}, "did you mean 'tunectl sweep'?"},
      {{"--address", "unix:/x", "devcie", "list"}, "did you mean 'tunectl device'?"},
      {{"device", "lst"}, "did you mean 'tunectl device list'?"},
      {{"status"}, "did you mean 'tunectl server status'?"},
      {{"sweep", "softmax", "--bugdet", "3s"}, "has no flag --bugdet; did you mean --budget?"},
      {{"sweep", "--bugdet", "3s"}, "has no flag --bugdet; did you mean --budget?"},
      {{"device", "frobnicate"}, "there is: list, show"},
      {{"device", "list", "--jsn"}, "did you mean --json?"},
      {{"frobnicate"}, "there is: sweep, best"},
      {{"help", "device", "frobnicate"}, "tunectl device has no command 'frobnicate'"}};
  for (const auto& [words, suggestion] : cases) {
    const Ran ran = Tunectl(words);
    EXPECT_EQ(ran.code, 2) << suggestion;
    EXPECT_THAT(ran.err, HasSubstr(suggestion));
  }
}

TEST(TunectlTest, ADimGivenAsAKernelIsAFlag) {
  const std::vector<std::vector<std::string>> cases = {
      {"sweep", "softmax", "rows=64"},
      {"best", "rows=64"},
      {"bench", "softmax", "rows=64"},
      {"compare", "softmax", "softmax_triton", "rows=64"}};
  for (const auto& words : cases) {
    const Ran ran = Tunectl(words);
    EXPECT_EQ(ran.code, 2) << words[0];
    EXPECT_EQ(ran.out, "") << words[0];
    EXPECT_EQ(ran.err, "tunectl: 'rows=64' is no kernel; dims are flags: --rows 64\n");
  }
}

TEST(TunectlTest, AWordTooManyIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"sweep", "softmax", "rows:64"}, "'rows:64' is no kernel; dims are flags: --rows 64\n"},
      {{"best", "softmax", "rows", "64"},
       "'rows' is one word more than 'tunectl best' takes; dims are flags: --rows 64\n"},
      {{"best", "softmax", "--cols", "8", "--rows=8", "64"},
       "'64' is one word more than 'tunectl best' takes; dims are flags: --rows 64\n"},
      {{"sweep", "softmax", "--budget", "10", "sec"},
       "'sec' is one word more than 'tunectl sweep' takes; --budget takes one word, and has '10': "
       "Trials (100) or time (30s, 5min); time includes"},
      {{"sweep", "softmax", "--cols", "4096", "1024"},
       "'1024' is one word more than 'tunectl sweep' takes; --cols takes one word, and has "
       "'4096'\n"}};
  for (const auto& [words, message] : cases) {
    const Ran ran = Tunectl(words);
    EXPECT_EQ(ran.code, 2) << message;
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_THAT(ran.err, Not(HasSubstr("At Most")));
  }
}

// LABEL=KERNEL, an argument of compare, is none.
TEST(TunectlTest, ALabelledKernelIsNoDim) {
  const std::string swept = Tunectl({"compare", "a=softmax", "b=softmax", "--sweep", "rows"}).err;
  EXPECT_THAT(swept, HasSubstr("needs a dim and its values"));
  EXPECT_THAT(swept, Not(HasSubstr("dims are flags")));
  const std::string one = Tunectl({"compare", "a=softmax"}).err;
  EXPECT_THAT(one, HasSubstr("'tunectl bench softmax' measures one alone"));
  EXPECT_THAT(one, Not(HasSubstr("dims are flags")));
}

TEST(TunectlTest, HelpNamesRangesDefaultsAndChoicesInWords) {
  const std::string explain = Tunectl({"explain", "--help"}).out;
  EXPECT_THAT(explain, HasSubstr("--at-most N "));
  EXPECT_THAT(explain, HasSubstr("nearest first (1 to 1000, default 5)\n"));
  EXPECT_THAT(explain, HasSubstr("\n  KERNEL   "));
  const std::string trials = Tunectl({"trial", "list", "--help"}).out;
  EXPECT_THAT(trials, HasSubstr("--sort {id,time} "));
  EXPECT_THAT(trials, HasSubstr("by config (default id)\n"));
  EXPECT_THAT(trials, HasSubstr("(only with --json)\n"));
  EXPECT_THAT(trials, HasSubstr("(not with --json)\n"));
  EXPECT_THAT(Tunectl({"token", "create", "--help"}).out, HasSubstr("operator (required)\n"));
  EXPECT_THAT(Tunectl({"--help"}).out, HasSubstr("(or $TUNE_ADDRESS)\n"));
}

TEST(TunectlTest, FlagsRejectWhatTheirRulesDoNotAllow) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"explain", "softmax", "--at-most", "1001"}, "1001 not in range 1 to 1000"},
      {{"trial", "list", "1", "--sort", "size"}, "size not in {id,time}"},
      {{"trial", "list", "1", "--samples"}, "--samples requires --json"},
      {{"trial", "list", "1", "--csv", "--json"}, "--csv excludes --json"},
      {{"trial", "list", "1", "--sweep", "2"}, "SWEEP excludes --sweep"},
      {{"space", "sample", "softmax", "--seed", "-1"}, "'-1' is below 0"},
      {{"token", "create", "alice"}, "--role is required"},
      {{"gate", "--retune", "0.5"}, "0.5 not in range 1 to 86400"},
      {{"compare", "a", "b", "--leg-seconds", "0.0001"}, "0.0001 not in range 0.001 to 10"},
      {{"job", "prune", "--older-than", "-1"}, "-1 not in range 0 to 36500"},
      {{"job", "cancel", "7", "--owner", "alice"}, "excludes"},
      {{"bench", "softmax", "--seed", "-1"}, "'-1' is below 0"},
      {{"kernel", "show", "a", "--kernel", "b"}, "name one kernel"},
      {{"kernel", "new", "k", "--language", "sql"}, "sql not in {"},
      {{"report", "sweep", "scale-ptx"},
       "ID 'scale-ptx' is not a number: Sweep id, as in 'tunectl sweep list'"},
      {{"snapshot", "diff"}, "BEFORE is required"}};
  for (const auto& [words, error] : cases) {
    const Ran ran = Tunectl(words);
    EXPECT_EQ(ran.code, 2) << error;
    EXPECT_THAT(ran.err, HasSubstr(error));
  }
}

TEST(TunectlTest, CommandsThatRemoveAskForWhat) {
  const Ran cancel = Tunectl({"job", "cancel"});
  EXPECT_EQ(cancel.code, 2);
  EXPECT_THAT(cancel.err, HasSubstr("needs the ID of a job, or --owner NAME"));
  const Ran prune = Tunectl({"job", "prune", "--dry-run"});
  EXPECT_EQ(prune.code, 2);
  EXPECT_THAT(prune.err, HasSubstr("needs --owner, --older-than, or both"));
  // 0 days is a value: it is past the check, and no daemon is at this address.
  EXPECT_EQ(Tunectl({"--address", "unix:/none", "job", "prune", "--older-than", "0"}).code, 3);
}

TEST(TunectlTest, ACommandsExamplesAreInItsOwnHelpOnly) {
  const std::string sweep = Tunectl({"sweep", "--help"}).out;
  EXPECT_THAT(sweep, HasSubstr("\nExamples:\n  tunectl sweep attention --seq 4096\n"));
  EXPECT_THAT(sweep, HasSubstr("Show this help; with a kernel, also its dims"));
  const std::string all = Tunectl({"--help"}).out;
  EXPECT_THAT(all, Not(HasSubstr("Examples:")));
  EXPECT_THAT(all, HasSubstr("Exit codes: 0 done"));
}

TEST(TunectlTest, TheManualNamesTheExitCodesOnce) {
  const std::vector<std::string> parts =
      absl::StrSplit(Tunectl({"help", "--markdown"}).out, "130 interrupted");
  EXPECT_EQ(parts.size(), 2);
}

TEST(TunectlTest, CommandsThatListPrintJson) {
  for (const char* command : {"sweep", "job", "trial", "gate", "compare", "record", "snapshot",
                              "token", "kernel", "device", "strategy", "baseline"}) {
    EXPECT_THAT(Tunectl({command, "list", "--help"}).out, HasSubstr("--json  ")) << command;
  }
}

TEST(TunectlTest, EveryCommandHasHelp) {
  const std::vector<std::string> manual = absl::StrSplit(Tunectl({"help", "--markdown"}).out, '\n');
  int commands = 0;
  for (const std::string& line : manual) {
    absl::string_view title = line;
    if (!absl::ConsumePrefix(&title, "## tunectl ")) continue;
    std::vector<std::string> words = absl::StrSplit(title, ' ');
    words.push_back("--help");
    const Ran ran = Tunectl(words);
    EXPECT_EQ(ran.code, 0) << line << ": " << ran.err;
    EXPECT_THAT(ran.out, HasSubstr(absl::StrCat("Usage: tunectl ", title, " ")));
    words.pop_back();
    words.insert(words.begin(), "help");
    EXPECT_EQ(Tunectl(words).out, ran.out) << line;
    ++commands;
  }
  EXPECT_GT(commands, 30);
}

}  // namespace
}  // namespace tune::client
