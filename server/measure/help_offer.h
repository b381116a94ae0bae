// SPDX-License-Identifier: Apache-2.0
// Brings further devices to the search of a sweep, which they help with. The sweep opens the
// offer when it searches and closes it before it confirms; the thread of each further device calls
// Help, which prepares the device and measures there until the offer is closed.
#pragma once

#include <condition_variable>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "server/measure/sweep_evaluator.h"
#include "server/supervision/workers.h"

namespace tune::server {

// Thread-safe.
class HelpOffer {
 public:
  // The search begins. `like`: the options of its evaluator. All are used until Close.
  void Open(Workers& workers, SweepEvaluator& evaluator, const SweepEvaluatorOptions& like);
  // The search is over, or there is none. Waits until nobody helps any more: at most as long as a
  // cancelled measurement takes to end.
  void Close();
  bool is_closed() const;

  // Helps with the search on another device: waits for its begin, prepares the device and measures
  // there. Returns when the search is over or `stop` returns true. An error: the device is not like
  // the sweep's, cannot be prepared or is lost.
  absl::Status Help(const std::string& device_id, const Cancelled& stop);

 private:
  struct Search {
    Workers& workers;
    SweepEvaluator& evaluator;
    SweepEvaluatorOptions like;
  };
  absl::Status HelpWith(const Search& search, const std::string& device_id,
                        const Cancelled& cancelled);

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Search> search_ ABSL_GUARDED_BY(mutex_);
  int helpers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tune::server
