// SPDX-License-Identifier: Apache-2.0
// A snapshot that was found once, and what it answers.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/libtune/answer_table.h"
#include "client/libtune/background.h"
#include "client/libtune/misses.h"
#include "client/libtune/resolve.h"
#include "client/libtune/sources.h"

namespace tune::library {

struct OpenOptions {
  std::optional<std::string> snapshot;  // nothing: TUNE_SNAPSHOT's
  std::string address;                  // empty: TUNE_ADDRESS's, else the host's
  std::chrono::milliseconds timeout = std::chrono::milliseconds(250);  // of the daemon
  std::optional<bool> record_misses;  // nothing: TUNE_RECORD_MISSES's
  std::string bundle;                 // empty: share/tunectl of the install
};

// Thread-safe. A forked child goes on with it.
class JobClient {
 public:
  // Reads the environment; nothing else of a client does. INVALID_ARGUMENT: a digest that cannot be
  // one. FAILED_PRECONDITION: WORLD_SIZE is above one, and nothing is pinned.
  static absl::StatusOr<std::shared_ptr<const JobClient>> Open(const OpenOptions& options);

  // A client of the newest snapshot, which tells misses where this one does. Waits some seconds for
  // the daemon, where this one asks it at all; what the node's cache was told within
  // `fresh_seconds` will do. Null: that is `digest`, or nothing is found in time but what the
  // install brings.
  std::shared_ptr<const JobClient> NewerThan(const std::string& digest, double fresh_seconds,
                                             int end_fd) const;

  // Empty without a snapshot.
  const std::string& digest() const;
  const Snapshot* snapshot() const { return found_.snapshot.get(); }  // null: there is none
  const std::string& source() const { return found_.source; }
  const std::vector<std::string>& notes() const { return found_.notes; }

  // The answer to an earlier question with the same bytes; null if it is to be worked out.
  std::shared_ptr<const KeptAnswer> Find(absl::string_view key) const { return table_.Find(key); }
  // All questions so far with their answers, each once; nullopt if another thread is asking.
  std::optional<std::vector<std::shared_ptr<const KeptAnswer>>> Asked() const {
    return table_.All();
  }
  // Works an answer out, keeps it by its key, and records a miss. INVALID_ARGUMENT: a mistake of
  // the caller.
  absl::StatusOr<std::shared_ptr<const KeptAnswer>> Best(absl::string_view key,
                                                         const Question& question) const;
  // NOT_FOUND. A daemon that did not give one is asked for none within the next minute; a forked
  // child asks none at all.
  absl::StatusOr<std::string> Artifact(const std::string& digest) const;
  Misses* misses() const { return misses_.get(); }  // null: nothing is told

 private:
  JobClient(Found found, Daemon daemon, std::shared_ptr<Misses> misses)
      : found_(std::move(found)), daemon_(std::move(daemon)), misses_(std::move(misses)) {}

  const Found found_;
  const Daemon daemon_;
  const std::shared_ptr<Misses> misses_;
  mutable AnswerTable table_;
  const HomeProcess home_;
  mutable std::atomic<std::chrono::steady_clock::time_point> rests_until_ = {};
};

}  // namespace tune::library
