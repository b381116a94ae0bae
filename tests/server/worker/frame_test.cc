// SPDX-License-Identifier: Apache-2.0
#include "server/worker/frame.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tune/worker/v1/worker.pb.h"

namespace tune::server {
namespace {

class FrameTest : public testing::Test {
 protected:
  FrameTest() {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds_) != 0) abort();
    fcntl(fds_[1], F_SETFL, O_NONBLOCK);
  }
  ~FrameTest() override {
    CloseWriter();
    close(fds_[1]);
  }
  void Send(const std::string& bytes) { ASSERT_TRUE(WriteAll(fds_[0], bytes).ok()); }
  void CloseWriter() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  // Reads until there is a frame, an error or nothing more to read.
  absl::StatusOr<bool> ReadAll(FrameReader& reader) {
    for (int i = 0; i < 1000; ++i) {
      absl::StatusOr<bool> whole = reader.ReadFrom(fds_[1]);
      if (!whole.ok() || *whole) return whole;
      char next;
      if (recv(fds_[1], &next, 1, MSG_PEEK) < 0) return false;
    }
    return false;
  }
  int reader_fd() const { return fds_[1]; }

 private:
  int fds_[2];
};

std::string Frame(const std::string& log) {
  worker::v1::WorkerReply reply;
  reply.mutable_compiled()->set_log(log);
  return EncodeFrame(reply).value();
}

TEST_F(FrameTest, ReadsOneFrameAndNothingOfTheNext) {
  Send(Frame("first") + Frame("second"));
  for (const char* expected : {"first", "second"}) {
    FrameReader reader;
    ASSERT_TRUE(ReadAll(reader).value());
    worker::v1::WorkerReply reply;
    ASSERT_TRUE(reply.ParseFromString(reader.payload()));
    EXPECT_EQ(reply.compiled().log(), expected);
  }
}

TEST_F(FrameTest, PutsPiecesTogether) {
  FrameReader reader;
  const std::string frame = Frame("in pieces");
  for (size_t i = 0; i < frame.size(); ++i) {
    ASSERT_EQ(ReadAll(reader).value(), false) << "after " << i << " bytes";
    Send(frame.substr(i, 1));
  }
  EXPECT_TRUE(ReadAll(reader).value());
  EXPECT_EQ(reader.payload(), frame.substr(4));
}

TEST_F(FrameTest, ReadsAnEmptyMessage) {
  Send(std::string(4, '\0'));
  FrameReader reader;
  EXPECT_TRUE(ReadAll(reader).value());
  EXPECT_EQ(reader.payload(), "");
}

TEST_F(FrameTest, RefusesALengthBeyondTheLimit) {
  Send(std::string("\x01\x00\x80\x02", 4));  // 40 MiB + 1
  FrameReader reader;
  EXPECT_EQ(ReadAll(reader).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FrameTest, ReportsAnEndInTheMiddle) {
  Send(Frame("cut").substr(0, 6));
  CloseWriter();
  FrameReader reader;
  EXPECT_EQ(ReadAll(reader).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(FrameTest, WritingToNobodyIsAnErrorAndNotASignal) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  close(fds[1]);
  EXPECT_EQ(WriteAll(fds[0], "hello").code(), absl::StatusCode::kUnavailable);
  close(fds[0]);
}

TEST_F(FrameTest, RefusesWhatItsReaderDoesNotExpectToBeSoLong) {
  Send(Frame(std::string(100, 'x')));
  FrameReader reader(100);
  const absl::StatusOr<bool> whole = ReadAll(reader);
  EXPECT_TRUE(absl::IsInvalidArgument(whole.status())) << whole.status();
}

}  // namespace
}  // namespace tune::server
