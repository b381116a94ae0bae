// SPDX-License-Identifier: Apache-2.0
// Answers as bytes, by the bytes of their questions: all ranks of a job ask the same, and only the
// first question is worked out.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace tune::server {

// Thread-safe.
class ReadyAnswers {
 public:
  static constexpr size_t kBytesMax = size_t{16} << 20;        // in all
  static constexpr size_t kAnswerBytesMax = size_t{64} << 10;  // with its question

  // Returns the answer kept for the same version of the knowledge; nullopt at another version.
  std::optional<grpc::ByteBuffer> Find(absl::string_view question, uint64_t version) const;
  // Keeps an answer. Drops all others if `version` differs from theirs, or if there are too many.
  // REQUIRES: the answer is one of `version`, or of a later one.
  void Keep(absl::string_view question, uint64_t version, const grpc::ByteBuffer& answer);

  size_t count() const;

 private:
  using Answers = absl::flat_hash_map<std::string, grpc::ByteBuffer>;

  mutable Mutex mutex_;
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Answers answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
