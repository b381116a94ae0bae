// SPDX-License-Identifier: Apache-2.0
#include "client/cli/waiting_note.h"

#include <cstdio>
#include <utility>

namespace tune::client {

WaitingNote::WaitingNote(std::string what, std::chrono::milliseconds period)
    : what_(std::move(what)), period_(period), thread_([this] { Loop(); }) {}

WaitingNote::~WaitingNote() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WaitingNote::Loop() {
  const auto begin = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock.native(), period_,
                            [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; })) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    std::fprintf(stderr, "tunectl: %s (%.0f s)\n", what_.c_str(), waited.count());
  }
}

}  // namespace tune::client
