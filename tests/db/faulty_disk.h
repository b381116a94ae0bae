// SPDX-License-Identifier: Apache-2.0
// A disk that fails when it is told to: every file that SQLite opens while one of these lives goes
// through it.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

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

  // Syncs hang until Release.
  void HangSyncs();
  void Release();
  // Waits until a sync hangs.
  void AwaitHanging();
  // Called by the functions below; not for tests.
  void PassSync();

 private:
  sqlite3_vfs vfs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hang_ = false;  // under mutex_, as is
  int hanging_ = 0;
};

}  // namespace tune::db
