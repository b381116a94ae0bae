// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

ChildCommand Shell(const std::string& script) {
  return {.program = "/bin/sh", .arguments = {"-c", script}, .environment = {"GREETING=hello"}};
}

Deadline In(milliseconds time) { return std::chrono::steady_clock::now() + time; }

TEST(RunChildTest, ReturnsOutputErrorsAndExitCode) {
  const auto result =
      RunChild(Shell("echo $GREETING; echo why >&2; exit 3"), ChildErrors::kApart, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "hello\n");
  EXPECT_EQ(result->errors, "why\n");
  const auto joined = RunChild(Shell("echo why >&2; kill -9 $$"), ChildErrors::kInOutput, {});
  EXPECT_EQ(joined->output, "why\n");
  EXPECT_EQ(joined->exit_code, 128 + SIGKILL);
}

TEST(RunChildTest, OutputBeyondTheBoundIsReadAndDiscarded) {
  const auto result =
      RunChild(Shell("yes | head -c 1000000"), ChildErrors::kInherited, {.output_max = 10});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->output, "y\ny\ny\ny\ny\n");
}

TEST(RunChildTest, AProgramThatPrintsTooMuchIsKilledWhereTheBoundsSaySo) {
  const auto result = RunChild(Shell("exec yes"), ChildErrors::kInherited,
                               {.output_max = 10, .kills_at_max = true});
  EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
}

TEST(RunChildTest, AProgramThatIsLateIsKilled) {
  for (const char* script : {"exec sleep infinity", "exec >&- 2>&-; exec sleep infinity"}) {
    const auto result =
        RunChild(Shell(script), ChildErrors::kApart, {.deadline = In(milliseconds(100))});
    EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
  }
}

TEST(RunChildTest, GivesUpOnceTheEndDescriptorCanBeRead) {
  Pipe end;
  ASSERT_TRUE(end.Open().ok());
  ASSERT_TRUE(WriteAll(end.write_end.get(), "x"));
  const auto result =
      RunChild(Shell("exec sleep 60"), ChildErrors::kApart, {.end_fd = end.read_end.get()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
}

TEST(RunChildTest, AProgramThatIsNotThereIsNamed) {
  const auto result = RunChild({.program = "/nonexistent"}, ChildErrors::kApart, {});
  EXPECT_TRUE(absl::IsUnavailable(result.status()));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("cannot start /nonexistent"));
}

TEST(RunChildTest, RunsInTheFolderWithDefaultSignals) {
  const auto before = signal(SIGPIPE, SIG_IGN);
  ChildCommand command = Shell("pwd; kill -PIPE $$; echo alive");
  command.folder = "/usr";
  const auto result = RunChild(command, ChildErrors::kApart, {});
  signal(SIGPIPE, before);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "/usr\n");
  EXPECT_EQ(result->exit_code, 128 + SIGPIPE);
}

TEST(ChildProcessTest, HasTheFilesOfItsCommandAndNoOthers) {
  Pipe output;
  ASSERT_TRUE(output.Open().ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // not closed on exec
  const Descriptor low[] = {Descriptor(ends[0]), Descriptor(ends[1])};
  const Descriptor first(fcntl(ends[0], F_DUPFD, 20)), second(fcntl(ends[1], F_DUPFD, 20));
  ChildCommand command = Shell(absl::StrCat("for fd in 5 ", first.get(), " ", second.get(),
                                            "; do test -e /proc/$$/fd/$fd && echo $fd >&5; done; ",
                                            "read line; echo \"$line.\" >&5"));
  command.files = {{output.write_end.get(), 5}};
  auto child = ChildProcess::Start(command);
  ASSERT_TRUE(child.ok()) << child.status();
  output.write_end.Reset();
  EXPECT_EQ(child->Wait(), 0);
  char text[256];
  std::string all;
  for (ssize_t got = 0; (got = read(output.read_end.get(), text, sizeof(text))) > 0;) {
    all.append(text, static_cast<size_t>(got));
  }
  EXPECT_EQ(all, "5\n.\n") << "and stdin is empty";
}

TEST(ChildProcessTest, WaitReturnsNothingWhileTheChildRunsAndItsStatusAfterwards) {
  auto child = ChildProcess::Start(Shell("exec sleep 60"));
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(In(milliseconds(0))), std::nullopt);
  child->Signal();
  EXPECT_EQ(child->Wait(), SIGKILL);
  EXPECT_EQ(child->Wait(In(milliseconds(0))), SIGKILL);
}

TEST(ChildProcessTest, TheGroupEndsWithItsLeader) {
  Pipe output;
  ASSERT_TRUE(output.Open().ok());
  ChildCommand command = Shell("sleep 60 & exec sleep 60");
  command.files = {{output.write_end.get(), STDOUT_FILENO}};
  command.leads_group = true;
  {
    auto child = ChildProcess::Start(command);
    ASSERT_TRUE(child.ok()) << child.status();
    output.write_end.Reset();
  }
  char byte;  // the last process that could write has ended
  EXPECT_EQ(read(output.read_end.get(), &byte, 1), 0);
}

TEST(ConversationTest, AnswersAreReadByLineAndByBytes) {
  auto shell = Conversation::Start({.program = "sh",
                                    .arguments = {"-c", "while read x; do echo \"<$x>\"; done"},
                                    .timeout = std::chrono::seconds(20),
                                    .shown = "sh -c"});
  ASSERT_TRUE(shell.ok()) << shell.status();
  ASSERT_TRUE((*shell)->Write("a\n").ok());
  EXPECT_EQ(*(*shell)->ReadLine(100), "<a>");
  ASSERT_TRUE((*shell)->Write("b\n").ok());
  EXPECT_EQ(*(*shell)->ReadBytes(2), "<b");
  EXPECT_EQ(*(*shell)->ReadToEnd(100), ">\n");
}

TEST(ConversationTest, FailuresSayWhatWasRunAndWhy) {
  const auto why = [](const std::string& script, size_t bytes_max) {
    auto shell = Conversation::Start({.program = "sh",
                                      .arguments = {"-c", script},
                                      .timeout = milliseconds(300),
                                      .shown = "sh -c",
                                      .if_late = "; look"});
    return std::string((*shell)->ReadToEnd(bytes_max).status().message());
  };
  EXPECT_EQ(why("echo broken >&2; exit 1", 10), "'sh -c' failed: broken");
  EXPECT_EQ(why("exit 1", 10), "'sh -c' failed: it does not say why");
  EXPECT_EQ(why("exec sleep 60", 10), "'sh -c' took longer than 0.3 s and was stopped; look");
  EXPECT_EQ(why("echo too many bytes", 10), "'sh -c' prints more than 10 bytes");
  EXPECT_EQ(Conversation::Start({.program = "nonexistent", .if_missing = "install it"})
                .status()
                .message(),
            "no nonexistent in PATH; install it");
}

}  // namespace
}  // namespace tune
