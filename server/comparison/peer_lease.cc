// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/peer_lease.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/steady_time.h"

namespace tune::server {
namespace {

constexpr size_t kPieceBytesMax = size_t{2} << 20;
constexpr int kPeerSamplesMax = 10000;

std::string RandomToken() {
  std::random_device source;
  std::string token;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&token, "%08x", source());
  return token;
}

}  // namespace

PeerLease::PeerLease(absl::Duration silence_max)
    : silence_max_(silence_max), token_(RandomToken()) {}

uint32_t PeerLease::Begin(const std::vector<std::string>& outputs) {
  MutexLock lock(mutex_);
  open_ = true;
  wanted_ = outputs;
  heard_ = SteadyNow();
  output_bytes_ = 0;
  answer_ = {};
  refused_.reset();
  return ++number_;
}

absl::StatusOr<PeerAnswer> PeerLease::Await(absl::Duration limit, const Cancelled& cancelled) {
  const absl::Time until = SteadyNow() + limit;
  MutexLock lock(mutex_);
  absl::Status over;
  while (open_ && over.ok()) {
    changed_.wait_for(lock.native(), kCancelPollPeriod);
    const absl::Time now = SteadyNow();
    if (!open_) break;
    if (cancelled && cancelled()) {
      over = absl::CancelledError("cancelled while a peer had its turn");
    } else if (now - heard_ > silence_max_) {
      over = absl::AbortedError(absl::StrCat("the client that runs it said nothing for ",
                                             absl::FormatDuration(silence_max_)));
    } else if (now > until) {
      over = absl::DeadlineExceededError(
          absl::StrCat("no answer within ", absl::FormatDuration(limit)));
    }
  }
  open_ = false;
  if (!over.ok()) return over;
  if (refused_) return *refused_;
  return std::move(answer_);
}

absl::Status PeerLease::Hear(const v1::AnswerPeerRequest& said) {
  if (said.lease() != token_) return absl::PermissionDeniedError("this is another client's lease");
  MutexLock lock(mutex_);
  // Words of a turn that is over do not keep the one after it.
  if (!open_ || said.number() != number_) return absl::OkStatus();
  heard_ = SteadyNow();
  if (said.has_piece()) return TakePiece(said.piece());
  if (!said.has_report()) return absl::OkStatus();
  if (said.report().samples_ns_size() > kPeerSamplesMax) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kPeerSamplesMax, " samples"));
  }
  answer_.report = said.report();
  open_ = false;
  changed_.notify_all();
  return absl::OkStatus();
}

// The names are as few as the turn has outputs, so elements are all that can grow.
absl::Status PeerLease::TakePiece(const v1::PeerPiece& piece) {
  if (std::find(wanted_.begin(), wanted_.end(), piece.buffer()) == wanted_.end()) {
    return Refuse(absl::InvalidArgumentError(
        absl::StrCat("it sent elements of a buffer that the turn does not ask for: it asks for ",
                     wanted_.empty() ? "none" : absl::StrJoin(wanted_, ", "))));
  }
  const size_t bytes = piece.elements().size();
  output_bytes_ += bytes;
  if (bytes > kPieceBytesMax || output_bytes_ > kOutputBytesMax) {
    return Refuse(absl::ResourceExhaustedError(
        absl::StrCat("its outputs are larger than ", kOutputBytesMax >> 20,
                     " MiB, or sent in pieces larger than ", kPieceBytesMax >> 20,
                     " MiB: compare a smaller problem")));
  }
  answer_.outputs[piece.buffer()] += piece.elements();
  return absl::OkStatus();
}

absl::Status PeerLease::Refuse(const absl::Status& why) {
  refused_ = why;
  open_ = false;
  changed_.notify_all();
  return why;
}

void PeerLeases::Add(int64_t job_id, std::shared_ptr<PeerLease> lease) {
  MutexLock lock(mutex_);
  leases_[job_id] = std::move(lease);
}

void PeerLeases::Remove(int64_t job_id) {
  MutexLock lock(mutex_);
  leases_.erase(job_id);
}

absl::Status PeerLeases::Hear(const v1::AnswerPeerRequest& said) {
  std::shared_ptr<PeerLease> lease;
  {
    MutexLock lock(mutex_);
    const auto found = leases_.find(said.job_id());
    if (found != leases_.end()) lease = found->second;
  }
  if (lease != nullptr) return lease->Hear(said);
  return absl::NotFoundError(
      absl::StrCat("no comparison of job ", said.job_id(), " waits for a peer"));
}

}  // namespace tune::server
