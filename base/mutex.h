// SPDX-License-Identifier: Apache-2.0
// std::mutex as clang's thread safety analysis follows it: tools/lint.py has clang check that a
// member marked ABSL_GUARDED_BY(mutex_) is used only while the mutex is held.
//
//   class Queue {
//    public:
//     Task Take() {
//       MutexLock lock(mutex_);
//       while (tasks_.empty()) changed_.wait(lock.native());
//       return TakeLocked();
//     }
//    private:
//     Task TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
//     Mutex mutex_;
//     std::condition_variable changed_;
//     std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
//   };
//
// The analysis takes a lambda for a function of its own, so a wait's condition repeats what it
// requires: `[this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); }`.
#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tune {

class ABSL_LOCKABLE Mutex {
 public:
  // For a function that requires the mutex and releases it meanwhile; else use MutexLock.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex during its life, apart from the time between Unlock and Lock.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  // For std::condition_variable.
  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace tune
