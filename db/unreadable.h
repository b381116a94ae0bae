// SPDX-License-Identifier: Apache-2.0
// Rows that were left out of a list because they do not parse: one such row must not fail the whole
// list, and must be reported.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "db/store.h"

namespace tune::db {

// Thread-safe.
class Unreadable {
 public:
  void Note(const std::string& table, int64_t id, const std::string& why) {
    MutexLock lock(mutex_);
    if (rows_.size() < kKept) rows_.try_emplace({table, id}, why);
  }
  std::vector<UnreadableRow> rows() const {
    MutexLock lock(mutex_);
    std::vector<UnreadableRow> rows;
    for (const auto& [key, why] : rows_) rows.push_back({key.first, key.second, why});
    return rows;
  }

 private:
  static constexpr size_t kKept = 1000;
  mutable Mutex mutex_;
  std::map<std::pair<std::string, int64_t>, std::string> rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::db
