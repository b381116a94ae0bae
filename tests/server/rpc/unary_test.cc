// SPDX-License-Identifier: Apache-2.0
// Calls that nobody waits for any more, over a real connection.
#include "server/rpc/unary.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "tests/server/temp_dir.h"
#include "tune/v1/server.grpc.pb.h"

namespace tune::server {
namespace {

using Handler = std::function<absl::Status(const Cancelled&)>;

// A service with one thread, whose call does what the test says.
class ScriptedService : public v1::ServerService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest*, v1::ServerStatus*) override {
    return AnswerOn(executor, context, cap, handle);
  }
  Executor executor{/*threads_max=*/1, /*queue_max=*/1};
  absl::Duration cap = absl::InfiniteDuration();
  Handler handle;
};

class UnaryTest : public testing::Test {
 protected:
  UnaryTest() {
    const std::string address = "unix:" + dir_.path() + "/d.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::ServerService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  }
  ~UnaryTest() override {
    service_.executor.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(10));
  }

  // A call on a thread of its own.
  struct Call {
    grpc::ClientContext context;
    grpc::Status status;
    std::thread thread;
    ~Call() {
      if (thread.joinable()) thread.join();
    }
    grpc::StatusCode Code() {
      thread.join();
      return status.error_code();
    }
  };
  std::unique_ptr<Call> Start(absl::Duration limit = absl::Seconds(60)) {
    auto call = std::make_unique<Call>();
    call->context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
    call->thread = std::thread([this, &call = *call] {
      v1::ServerStatus response;
      call.status = stub_->GetStatus(&call.context, {}, &response);
    });
    return call;
  }
  // One that keeps the thread until it is let go; waits until it has it.
  std::unique_ptr<Call> KeepThread(std::latch& release) {
    std::latch inside(1);
    service_.handle = [&](const Cancelled&) {
      inside.count_down();
      release.wait();
      return absl::OkStatus();
    };
    auto call = Start();
    inside.wait();
    return call;
  }
  // Until the executor's queue has or has not room for one more.
  void AwaitRoom(bool room) {
    for (int i = 0; i < 3000; ++i) {
      const absl::StatusOr<Executor::Ticket> ticket = service_.executor.Run([] {});
      if (ticket.ok()) service_.executor.Drop(*ticket);
      if (ticket.ok() == room) return;
      absl::SleepFor(absl::Milliseconds(10));
    }
    FAIL() << "no change within half a minute";
  }

  TempDir dir_;
  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ServerService::Stub> stub_;
};

TEST_F(UnaryTest, ACallWhoseClientWentAwayLeavesTheQueue) {
  std::latch release(1);
  const auto keeper = KeepThread(release);
  std::atomic<int> ran = 0;
  service_.handle = [&](const Cancelled&) {
    ++ran;
    return absl::OkStatus();
  };
  const auto queued = Start();
  AwaitRoom(false);
  queued->context.TryCancel();
  EXPECT_EQ(queued->Code(), grpc::StatusCode::CANCELLED);
  AwaitRoom(true);  // while the thread is still kept
  release.count_down();
  EXPECT_EQ(keeper->Code(), grpc::StatusCode::OK);
  EXPECT_EQ(ran, 0);
}

TEST_F(UnaryTest, ACallWhoseDeadlinePassesLeavesTheQueue) {
  std::latch release(1);
  const auto keeper = KeepThread(release);
  std::atomic<int> ran = 0;
  service_.handle = [&](const Cancelled&) {
    ++ran;
    return absl::OkStatus();
  };
  const auto queued = Start(absl::Milliseconds(200));
  EXPECT_EQ(queued->Code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  AwaitRoom(true);
  release.count_down();
  EXPECT_EQ(keeper->Code(), grpc::StatusCode::OK);
  EXPECT_EQ(ran, 0);
}

TEST_F(UnaryTest, ACallThatRunsIsToldThatItsClientWentAway) {
  std::latch inside(1);
  std::latch told(1);
  service_.handle = [&](const Cancelled& cancelled) {
    inside.count_down();
    while (!cancelled()) absl::SleepFor(absl::Milliseconds(5));
    told.count_down();
    return absl::CancelledError("cancelled");
  };
  const auto call = Start();
  inside.wait();
  call->context.TryCancel();
  told.wait();
  EXPECT_EQ(call->Code(), grpc::StatusCode::CANCELLED);
}

TEST_F(UnaryTest, ACallThatRunsIsToldOfItsCap) {
  service_.cap = absl::Milliseconds(50);
  service_.handle = [&](const Cancelled& cancelled) {
    while (!cancelled()) absl::SleepFor(absl::Milliseconds(5));
    return absl::CancelledError("cancelled");
  };
  EXPECT_EQ(Start()->Code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(UnaryTest, ACallThatRunsIsToldThatTheDaemonStops) {
  std::latch inside(1);
  service_.handle = [&](const Cancelled& cancelled) {
    inside.count_down();
    while (!cancelled()) absl::SleepFor(absl::Milliseconds(5));
    return absl::UnavailableError("stopping");
  };
  const auto call = Start();
  inside.wait();
  service_.executor.BeginStop();
  EXPECT_EQ(call->Code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace tune::server
