// SPDX-License-Identifier: Apache-2.0
// A client that runs peers itself holds the device's turn by a lease: it is asked for one turn
// after the other, says that it is alive meanwhile, and loses the turn when it falls silent.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "tune/v1/comparison.pb.h"

namespace tune::server {

struct PeerAnswer {
  v1::PeerReport report;
  std::map<std::string, std::string> outputs;  // elements by buffer
};

// Thread-safe.
class PeerLease {
 public:
  // Of all outputs of a peer: they go to a worker in one message.
  static constexpr size_t kOutputBytesMax = size_t{192} << 20;

  // The client loses its turn where it says nothing for `silence_max`.
  explicit PeerLease(absl::Duration silence_max = absl::Seconds(5));
  const std::string& token() const { return token_; }

  // Begins a turn, which takes the elements of these buffers and of no others; its number.
  uint32_t Begin(const std::vector<std::string>& outputs);
  // Waits for the turn's report and ends the turn. ABORTED: the client has been silent for
  // too long; DEADLINE_EXCEEDED: it has no answer within `limit`; CANCELLED.
  absl::StatusOr<PeerAnswer> Await(absl::Duration limit, const Cancelled& cancelled);

  // What the client says; errors as AnswerPeer's in comparison.proto. What it says of a turn that
  // is over is passed over.
  absl::Status Hear(const v1::AnswerPeerRequest& said);

 private:
  // REQUIRES: the turn is open.
  absl::Status TakePiece(const v1::PeerPiece& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refuse(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration silence_max_;
  const std::string token_;
  Mutex mutex_;
  std::condition_variable changed_;
  uint32_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last turn
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> wanted_ ABSL_GUARDED_BY(mutex_);  // the turn's outputs
  absl::Time heard_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  size_t output_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  PeerAnswer answer_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> refused_ ABSL_GUARDED_BY(mutex_);  // ends the turn
};

// Those of all comparisons that run, by their jobs. Thread-safe.
class PeerLeases {
 public:
  void Add(int64_t job_id, std::shared_ptr<PeerLease> lease);
  void Remove(int64_t job_id);
  // NOT_FOUND, PERMISSION_DENIED as AnswerPeer.
  absl::Status Hear(const v1::AnswerPeerRequest& said);

 private:
  Mutex mutex_;
  std::map<int64_t, std::shared_ptr<PeerLease>> leases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
