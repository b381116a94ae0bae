// SPDX-License-Identifier: Apache-2.0
#include "db/readers.h"

#include <utility>

namespace tune::db {
namespace {

constexpr int kMaxReaders = 4;

}  // namespace

absl::StatusOr<Readers::Lease> Readers::Borrow() {
  {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return !idle_.empty() || open_count_ < kMaxReaders; });
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return Lease(connection.release(), Return{this});
    }
    ++open_count_;
  }
  absl::StatusOr<std::unique_ptr<Connection>> opened =
      Connection::Open(path_, Connection::Mode::kReadOnly);
  if (opened.ok()) return Lease(opened->release(), Return{this});
  std::lock_guard lock(mutex_);
  --open_count_;
  returned_.notify_one();
  return opened.status();
}

void Readers::TakeBack(Connection* connection) {
  std::lock_guard lock(mutex_);
  idle_.emplace_back(connection);
  returned_.notify_one();
}

}  // namespace tune::db
