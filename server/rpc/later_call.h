// SPDX-License-Identifier: Apache-2.0
// A unary call that ends when another event has ended. No thread waits for it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/grpc_status.h"

namespace tune::server {

// Thread-safe. The request and the response live until End.
class LaterCall : public grpc::ServerUnaryReactor {
 public:
  // Lives until gRPC and all holders of the pointer are done with it.
  static std::shared_ptr<LaterCall> Make() {
    std::shared_ptr<LaterCall> call(new LaterCall());
    call->self_ = call;
    return call;
  }

  // Only the first call counts.
  void End(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
      leave_ = nullptr;
    }
    Finish(ToGrpc(status));
  }
  // Registers a function that is called once if the client leaves before the end, or its deadline
  // passes; at once if that has happened. It must not block. The call still needs its End.
  void OnLeave(std::function<void()> leave) {
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      if (!left_) {
        leave_ = std::move(leave);
        return;
      }
    }
    leave();
  }
  bool left() const {
    std::lock_guard lock(mutex_);
    return left_;
  }

  void OnCancel() override {
    std::function<void()> leave;
    {
      std::lock_guard lock(mutex_);
      left_ = true;
      leave = std::exchange(leave_, nullptr);
    }
    if (leave) leave();
  }
  void OnDone() override {
    std::shared_ptr<LaterCall> self;
    std::lock_guard lock(mutex_);
    self = std::move(self_);
  }

 private:
  LaterCall() = default;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::function<void()> leave_;
  bool left_ = false;
  bool ended_ = false;
  std::shared_ptr<LaterCall> self_;
};

}  // namespace tune::server
