// SPDX-License-Identifier: Apache-2.0
// The answers that this process has got, by the bytes of their questions: a question that was asked
// before costs a hash and a comparison.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "client/libtune/resolve.h"

namespace tune::library {

// The bytes of a question, as it was spelled.
class QuestionKey {
 public:
  QuestionKey(absl::string_view kernel, absl::string_view dtype, absl::string_view device) {
    for (const absl::string_view text : {kernel, dtype, device}) AddText(text);
  }
  void AddDim(absl::string_view name, int64_t value) {
    AddText(name);
    Add(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  absl::string_view bytes() const {
    return long_.empty() ? absl::string_view(short_, size_) : long_;
  }

 private:
  void Add(const char* data, size_t size) {
    if (long_.empty() && size_ + size <= sizeof(short_)) {
      std::memcpy(short_ + size_, data, size);
      size_ += size;
      return;
    }
    if (long_.empty()) long_.assign(short_, size_);
    long_.append(data, size);
  }
  void AddText(absl::string_view text) {
    Add(text.data(), text.size());
    Add("", 1);
  }

  char short_[256];  // nearly all fit
  size_t size_ = 0;
  std::string long_;
};

struct KeptAnswer {
  Question question;
  Answer answer;
  std::vector<std::string> macros;  // the values of the config's params
  std::string expected;             // the answer's expectation in words
};

// Thread-safe. A forked child goes on with it: no lock is waited for.
class AnswerTable {
 public:
  AnswerTable() : answers_(std::make_unique<Answers>()) {}
  ~AnswerTable();
  // Null if the key has no answer, or another thread is writing. At worst an answer is worked out
  // again.
  std::shared_ptr<const KeptAnswer> Find(absl::string_view key) const;
  void Keep(absl::string_view key, std::shared_ptr<const KeptAnswer> answer);
  // All stored answers, or nullopt if another thread is writing.
  std::optional<std::vector<std::shared_ptr<const KeptAnswer>>> All() const;

 private:
  using Answers = absl::flat_hash_map<std::string, std::shared_ptr<const KeptAnswer>>;

  mutable std::shared_mutex mutex_;  // is only ever tried
  std::unique_ptr<Answers> answers_;
};

}  // namespace tune::library
