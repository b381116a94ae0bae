// SPDX-License-Identifier: Apache-2.0
// The answers that this process has got, by the bytes of their questions: a question that was asked
// before costs a hash and a comparison.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "client/library/resolve.h"

namespace tune::library {

struct KeptAnswer {
  Question question;
  Answer answer;
  std::vector<std::string> macros;  // the values of the config's params
};

// Thread-safe. A forked child goes on with it: no lock is waited for.
class AnswerTable {
 public:
  // Null: it is not there, or somebody writes. At worst an answer is worked out again.
  std::shared_ptr<const KeptAnswer> Find(absl::string_view key) const;
  void Keep(absl::string_view key, std::shared_ptr<const KeptAnswer> answer);
  // What it has; empty: somebody writes.
  std::vector<std::shared_ptr<const KeptAnswer>> All() const;

 private:
  mutable std::shared_mutex mutex_;  // is only ever tried
  absl::flat_hash_map<std::string, std::shared_ptr<const KeptAnswer>> answers_;
};

}  // namespace tune::library
