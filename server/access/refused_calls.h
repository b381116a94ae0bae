// SPDX-License-Identifier: Apache-2.0
// Counts and logs refused calls, and slows down callers that guess tokens.
//
// A wrong token is answered late, once its host has sent more than a few, so that the host gets a
// fixed rate of answers over all of its connections. A right token from the same host is answered
// at once: a stranger cannot lock out a neighbour. Of each host a line is logged now and then, with
// the number of refusals since the last one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace tune::server {

// Thread-safe.
class RefusedCalls {
 public:
  struct Call {
    std::string host;        // of the peer
    absl::string_view path;  // "/tune.v1.SweepService/SubmitSweep"
    std::string caller;      // a principal with its role; empty: it has not shown who it is
    bool wrong_token = false;
  };
  // Returns the delay of the answer. If it exceeds kDelayMost, the connection is to be shut
  // instead.
  absl::Duration Note(const Call& call, const absl::Status& why);

  struct Counts {
    uint64_t calls = 0;  // since the start
    uint64_t wrong_tokens = 0;
  };
  Counts counts() const;

  static constexpr absl::Duration kDelayMost = absl::Seconds(5);

 private:
  struct Host {
    absl::Time next_answer;  // of a wrong token, by SteadyNow
    absl::Time logged;       // the last line
    uint64_t unlogged = 0;
  };
  Host& Find(const std::string& host, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Host> hosts_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
