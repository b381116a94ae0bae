// SPDX-License-Identifier: Apache-2.0
// A disk that fails when it is told to, and that remembers what was done to it: every file that
// SQLite opens while one of these lives goes through it.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tune::db {

// Only one may exist at a time. Make it before the store, so that it outlives the store.
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  // Error numbers (ENOSPC, EIO, EROFS, ...) that calls end with from now on; 0: they work.
  std::atomic<int> write_error{0};
  std::atomic<int> sync_error{0};
  std::atomic<int> read_error{0};

  // After `first` more writes and syncs, `count` of them fail with this error.
  void FailAfter(int64_t first, int64_t count, int error);

  // A change of a file, in the order in which the disk got them.
  struct Change {
    enum class Kind { kWrite, kTruncate, kSync, kDelete };
    Kind kind;
    std::string file;  // its path
    int64_t at = 0;    // of a write; of a truncation the new size
    std::string bytes;
  };
  void Remember() { remembers_ = true; }
  std::vector<Change> changes();
  size_t change_count();

  // Syncs hang until Release.
  void HangSyncs();
  void Release();
  // Waits until a sync hangs.
  void AwaitHanging();
  // Called by the files; not for tests.
  void PassSync();
  // The error that a write or a sync ends with; 0: none.
  int ErrorOf(const std::atomic<int>& error);
  void Note(Change change);

 private:
  sqlite3_vfs vfs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hang_ = false;  // under mutex_, as is
  int hanging_ = 0;
  std::vector<Change> changes_;
  std::atomic<bool> remembers_ = false;
  std::atomic<int64_t> operations_ = 0;  // writes and syncs since FailAfter
  std::atomic<int64_t> fails_from_ = 0;
  std::atomic<int64_t> fails_until_ = 0;
  std::atomic<int> fails_with_ = 0;
};

}  // namespace tune::db
