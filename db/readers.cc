// SPDX-License-Identifier: Apache-2.0
#include "db/readers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tune::db {
namespace {

constexpr int kMaxReaders = 4;

}  // namespace

absl::StatusOr<Readers::Borrowed> Readers::Borrow() {
  {
    MutexLock lock(mutex_);
    const bool free = returned_.wait_for(lock.native(), absl::ToChronoMilliseconds(patience_),
                                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                           return !idle_.empty() || open_count_ < kMaxReaders;
                                         });
    if (!free) {
      return absl::UnavailableError(absl::StrCat("all ", kMaxReaders,
                                                 " readers of the database have been busy for ",
                                                 absl::FormatDuration(patience_), "; try again"));
    }
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return Borrowed(connection.release(), Return{this});
    }
    ++open_count_;
  }
  absl::StatusOr<std::unique_ptr<Connection>> opened = connect_();
  if (opened.ok()) return Borrowed(opened->release(), Return{this});
  MutexLock lock(mutex_);
  --open_count_;
  returned_.notify_one();
  return opened.status();
}

void Readers::TakeBack(Connection* connection) {
  MutexLock lock(mutex_);
  idle_.emplace_back(connection);
  returned_.notify_one();
}

}  // namespace tune::db
