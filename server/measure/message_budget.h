// SPDX-License-Identifier: Apache-2.0
// Bounds the messages that a job stores. Its variants mostly fail alike, so the first messages say
// all: once a job has stored 256 KiB of them, each further one is cut at 1 KiB.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/measure/executors.h"

namespace tune::server {

// Not thread-safe.
class MessageBudget {
 public:
  // Returns what is to be stored of a message, and counts it.
  std::string Cut(std::string message) {
    message = ShortenedMessage(std::move(message));
    if (bytes_ > kWholeBytes && message.size() > kCutBytes) {
      message.resize(kCutBytes);
      absl::StrAppend(&message, "\n(cut: earlier messages of the job are long)");
    }
    bytes_ += message.size();
    return message;
  }

 private:
  static constexpr size_t kWholeBytes = 256 << 10;
  static constexpr size_t kCutBytes = 1 << 10;
  size_t bytes_ = 0;
};

}  // namespace tune::server
