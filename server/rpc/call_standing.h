// SPDX-License-Identifier: Apache-2.0
// Whether the caller of a call that stays open may still make it: a token may be revoked, and a
// certificate may expire, after the call began. A reactor takes the standing of its call when it
// is constructed, and ends the call with the first error that the standing returns.
#pragma once

#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace tune::server {

// Returns UNAUTHENTICATED once the caller is no longer known. Empty if the caller stays known.
using Standing = std::function<absl::Status()>;

// Says, while it lives, whose call the calling thread handles.
class CallStanding {
 public:
  // `find` returns the caller's standing. It is called only by a handler that asks for it.
  explicit CallStanding(std::function<Standing()> find)
      : find_(std::move(find)), before_(std::exchange(current_, this)) {}
  ~CallStanding() { current_ = before_; }
  CallStanding(const CallStanding&) = delete;
  CallStanding& operator=(const CallStanding&) = delete;

  // Empty outside of a handler.
  static Standing Current() { return current_ == nullptr ? Standing() : current_->find_(); }

 private:
  inline static thread_local const CallStanding* current_ = nullptr;
  const std::function<Standing()> find_;
  const CallStanding* const before_;
};

}  // namespace tune::server
