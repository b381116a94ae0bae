// SPDX-License-Identifier: Apache-2.0
// Somebody sets the clock: the deadlines of calls do not notice.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "server/rpc/unary.h"
#include "tests/server/set_clock.h"
#include "tests/server/temp_dir.h"
#include "tune/v1/server.grpc.pb.h"

namespace tune::server {
namespace {

class WaitingService : public v1::ServerService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest*, v1::ServerStatus*) override {
    left = DeadlineOf(*context, absl::Hours(1)) - SteadyNow();
    return AnswerOn(executor, context, [] { return absl::OkStatus(); });
  }
  Executor executor{/*threads_max=*/1, /*queue_max=*/1};
  absl::Duration left;
};

TEST(DeadlineClockTest, ACallHasItsTimeJustAfterTheClockWasSet) {
  SteadyNow();
  const TempDir dir;
  const std::string address = "unix:" + dir.path() + "/d.sock";
  WaitingService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub =
      v1::ServerService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  for (const int64_t jump : {0, -100, 100, -100000, 1000000}) {
    (void)absl::Now();  // it does not ask the system again for a while
    g_clock_set_by_seconds += jump;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ServerStatus response;
    const grpc::Status status = stub->GetStatus(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << "by " << jump << " s: " << status.error_message();
    EXPECT_GT(service.left, absl::Seconds(30)) << jump;
    EXPECT_LE(service.left, absl::Seconds(61)) << jump;
  }
  service.executor.Stop();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(10));
}

TEST(DeadlineClockTest, ACallWithoutADeadlineHasTheCap) {
  EXPECT_EQ(TimeLeft(gpr_inf_future(GPR_CLOCK_REALTIME)), absl::InfiniteDuration());
  EXPECT_EQ(TimeLeft(gpr_inf_future(GPR_CLOCK_MONOTONIC)), absl::InfiniteDuration());
}

}  // namespace
}  // namespace tune::server
