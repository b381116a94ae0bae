// SPDX-License-Identifier: Apache-2.0
// Read-only connections, lent to one reader at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "db/statement.h"

namespace tune::db {

// Thread-safe. Opens connections as they are needed, a few at most; a reader beyond that waits.
class Readers {
 public:
  struct Return {
    Readers* readers;
    void operator()(Connection* connection) const { readers->TakeBack(connection); }
  };
  // Goes back to the pool at the end of its life. REQUIRES: its statements are gone by then.
  using Borrowed = std::unique_ptr<Connection, Return>;

  using Connect = std::function<absl::StatusOr<std::unique_ptr<Connection>>()>;

  // `patience`: how long a reader waits for a connection.
  Readers(Connect connect, absl::Duration patience)
      : connect_(std::move(connect)), patience_(patience) {}
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  // UNAVAILABLE: all of them were busy all the time.
  absl::StatusOr<Borrowed> Borrow();

 private:
  void TakeBack(Connection* connection);

  const Connect connect_;
  const absl::Duration patience_;
  Mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mutex_);
  int open_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tune::db
