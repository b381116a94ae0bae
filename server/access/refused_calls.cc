// SPDX-License-Identifier: Apache-2.0
#include "server/access/refused_calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"

namespace tune::server {
namespace {

constexpr absl::Duration kAnswerEvery = absl::Milliseconds(250);
constexpr int kAtOnce = 10;  // wrong tokens of a host that are answered without delay
constexpr absl::Duration kLogEvery = absl::Seconds(10);
constexpr size_t kHostsMax = 1024;

}  // namespace

absl::Duration RefusedCalls::Note(const Call& call, const absl::Status& why) {
  const absl::Time now = SteadyNow();
  std::string line;
  absl::Duration delay;
  {
    MutexLock lock(mutex_);
    ++counts_.calls;
    Host& host = Find(call.host, now);
    if (call.wrong_token) {
      ++counts_.wrong_tokens;
      host.next_answer = std::max(host.next_answer, now) + kAnswerEvery;
      delay = host.next_answer - now - kAtOnce * kAnswerEvery;
    }
    if (now - host.logged < kLogEvery) {
      ++host.unlogged;
    } else {
      line = absl::StrCat("refused ", call.path, " to ",
                          call.caller.empty() ? "a stranger" : call.caller, " from ", call.host,
                          ": ", why.message());
      if (host.unlogged > 0) {
        absl::StrAppend(&line, " (and ", host.unlogged, " more from there since the last line)");
      }
      host.unlogged = 0;
      host.logged = now;
    }
  }
  if (!line.empty()) spdlog::warn("{}", line);
  return std::max(delay, absl::ZeroDuration());
}

RefusedCalls::Host& RefusedCalls::Find(const std::string& name, absl::Time now) {
  const auto found = hosts_.find(name);
  if (found != hosts_.end()) return found->second;
  if (hosts_.size() >= kHostsMax) {
    const auto oldest = std::min_element(
        hosts_.begin(), hosts_.end(),
        [](const auto& a, const auto& b) { return a.second.logged < b.second.logged; });
    hosts_.erase(oldest);
  }
  return hosts_.emplace(name, Host{.next_answer = now, .logged = absl::InfinitePast()})
      .first->second;
}

RefusedCalls::Counts RefusedCalls::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace tune::server
