// SPDX-License-Identifier: Apache-2.0
// A call that stays open and asks, now and then, whether its caller may still make it: a token may
// have been revoked, or a certificate have ended, since the call began.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace tune::server {

// UNAUTHENTICATED: the caller is not known any more. Empty: nothing changes about this caller.
using Standing = std::function<absl::Status()>;

class StandingCall {
 public:
  virtual ~StandingCall() = default;
  // Called once, by gRPC's thread that began the call. The call ends with the first error.
  virtual void SetStanding(Standing standing) = 0;
};

}  // namespace tune::server
