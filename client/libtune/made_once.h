// SPDX-License-Identifier: Apache-2.0
// A value that is made when it is first asked for, by whichever threads ask: what the first of them
// has made is what all get. There is no lock, so a forked child may ask for what a thread of its
// parent was about to make.
#pragma once

#include <atomic>
#include <memory>

namespace tune::library {

// Thread-safe.
template <typename T>
class MadeOnce {
 public:
  MadeOnce() = default;
  ~MadeOnce() { delete made_.load(); }
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  template <typename Make>
  const T& Get(Make make) const {
    const T* there = made_.load(std::memory_order_acquire);
    if (there != nullptr) return *there;
    auto fresh = std::make_unique<const T>(make());
    if (made_.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel)) {
      return *fresh.release();
    }
    return *there;
  }

 private:
  mutable std::atomic<const T*> made_ = nullptr;
};

}  // namespace tune::library
