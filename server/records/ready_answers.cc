// SPDX-License-Identifier: Apache-2.0
#include "server/records/ready_answers.h"

namespace tune::server {
namespace {

constexpr size_t kEntryBytes = 256;  // about what an answer takes besides its bytes

}  // namespace

std::optional<grpc::ByteBuffer> ReadyAnswers::Find(absl::string_view question,
                                                   uint64_t version) const {
  MutexLock lock(mutex_);
  if (version != version_) return std::nullopt;
  const auto found = answers_.find(question);
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

void ReadyAnswers::Keep(absl::string_view question, uint64_t version,
                        const grpc::ByteBuffer& answer) {
  const size_t bytes = question.size() + answer.Length() + kEntryBytes;
  if (bytes > kAnswerBytesMax) return;
  Answers forgotten;  // freed when nobody waits for the lock
  MutexLock lock(mutex_);
  if (version != version_ || bytes_ + bytes > kBytesMax) {
    forgotten.swap(answers_);
    version_ = version;
    bytes_ = 0;
  }
  if (answers_.try_emplace(std::string(question), answer).second) bytes_ += bytes;
}

size_t ReadyAnswers::count() const {
  MutexLock lock(mutex_);
  return answers_.size();
}

}  // namespace tune::server
