// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/call_metrics.h"

#include "base/steady_time.h"
#include "grpcpp/grpcpp.h"

namespace tune::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// Counts a call: made when the call begins, destroyed when it has ended.
class CallCounter final : public grpc::experimental::Interceptor {
 public:
  CallCounter(Metrics& metrics, const char* method) : metrics_(metrics), method_(method) {}
  ~CallCounter() override { metrics_.CountCall(method_, code_, SteadyNow() - begin_); }

  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = batch->GetSendStatus().error_code();
    }
    batch->Proceed();
  }

 private:
  Metrics& metrics_;
  const std::string method_;
  const absl::Time begin_ = SteadyNow();
  int code_ = grpc::StatusCode::CANCELLED;  // a call that sends no status was left by its client
};

class CallCounters final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallCounters(Metrics& metrics) : metrics_(metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new CallCounter(metrics_, info->method());
  }

 private:
  Metrics& metrics_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallCounter(
    Metrics& metrics) {
  return std::make_unique<CallCounters>(metrics);
}

}  // namespace tune::server
