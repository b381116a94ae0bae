// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/misses.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/libtune/daemon.h"

namespace tune::library {
namespace {

using std::chrono::seconds;

constexpr seconds kCollect(2);
constexpr seconds kDeadline(30);
constexpr size_t kAtOnce = 100;  // as many as the daemon takes
constexpr size_t kKnownMax = 10000;
constexpr size_t kReplyBytesMax = 1 << 20;

std::string TextOf(const std::vector<std::pair<std::string, int64_t>>& dims) {
  return absl::StrJoin(dims, " ", absl::PairFormatter("="));
}

}  // namespace

std::shared_ptr<Misses> Misses::Of(const std::string& address,
                                   std::shared_ptr<const Environment> environment) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, std::weak_ptr<Misses>>();
  // A lock that nobody gives back, after a fork, is not waited for: then there are two of one.
  const std::unique_lock lock(mutex, std::try_to_lock);
  std::shared_ptr<Misses> there;
  if (lock.owns_lock()) there = all[address].lock();
  if (there != nullptr && there->home_.IsHere()) return there;
  there.reset(new Misses(address, std::move(environment)), &Misses::Leave);
  if (lock.owns_lock()) all[address] = there;
  return there;
}

void Misses::Leave(Misses* misses) {
  if (misses->home_.IsHere()) delete misses;
}

Misses::~Misses() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  background_.reset();
}

void Misses::Add(const Answer& answer) {
  if (answer.dims.empty() || !home_.IsHere()) return;
  std::string key = absl::StrCat(answer.kernel, "\n", answer.dtype, "\n", answer.device, "\n",
                                 TextOf(answer.dims));
  MutexLock lock(mutex_);
  if (known_.size() >= kKnownMax || !known_.insert(std::move(key)).second) return;
  waiting_.push_back({answer.kernel, answer.dims, answer.dtype, answer.device});
  if (!telling_) StartLocked();
}

void Misses::StartLocked() {
  background_.reset();  // one that has told all there was
  auto started = Background::Start([this](const Background& background) { TellAll(background); });
  telling_ = started.ok();
  if (started.ok()) {
    background_ = *std::move(started);
  } else {
    notes_.push_back(absl::StrCat("misses wait for the next: ", started.status().message()));
  }
}

bool Misses::Wait(std::chrono::milliseconds time) {
  if (!home_.IsHere()) return true;
  MutexLock lock(mutex_);
  if (!waiting_.empty() && !telling_) StartLocked();
  hurry_ = true;
  changed_.notify_all();
  const bool told = changed_.wait_for(
      lock.native(), time, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !telling_; });
  hurry_ = false;
  return told && waiting_.empty();
}

const char* Misses::Note(size_t index) const {
  if (!home_.IsHere()) return nullptr;
  MutexLock lock(mutex_);
  return index < notes_.size() ? notes_[index].c_str() : nullptr;
}

void Misses::TellAll(const Background& background) {
  MutexLock lock(mutex_);
  // Runs before the lock is released.
  const absl::Cleanup told = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    telling_ = false;
    changed_.notify_all();
  };
  changed_.wait_for(lock.native(), kCollect,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return hurry_ || ending_; });
  while (!waiting_.empty() && !ending_) {
    const std::vector<Miss> batch = TakeBatchLocked();
    lock.Unlock();
    std::vector<std::string> notes = TellQuietly(batch, background.end_fd());
    lock.Lock();
    NoteLocked(std::move(notes));
  }
}

// If there is no memory for the batch its misses are dropped: each is reported at most once.
std::vector<Misses::Miss> Misses::TakeBatchLocked() {
  const auto end = waiting_.begin() + std::min(waiting_.size(), kAtOnce);
  std::vector<Miss> batch;
  try {
    batch.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  } catch (const std::exception&) {
  }
  waiting_.erase(waiting_.begin(), end);
  return batch;
}

std::vector<std::string> Misses::TellQuietly(const std::vector<Miss>& batch,
                                             int end_fd) const noexcept {
  try {
    if (!batch.empty()) return Tell(batch, end_fd);
  } catch (const std::exception&) {
  }
  return {};
}

void Misses::NoteLocked(std::vector<std::string> notes) noexcept {
  try {
    for (std::string& note : notes) notes_.push_back(std::move(note));
  } catch (const std::exception&) {
  }
}

std::vector<std::string> Misses::Tell(const std::vector<Miss>& batch, int end_fd) const {
  nlohmann::json questions = nlohmann::json::array();
  for (const Miss& miss : batch) {
    nlohmann::json dims = nlohmann::json::object();
    for (const auto& [name, value] : miss.dims) dims[name] = value;
    questions.push_back({{"kernel_name", miss.kernel},
                         {"dims", std::move(dims)},
                         {"dtype", miss.dtype},
                         {"device", miss.device}});
  }
  const nlohmann::json request = {{"questions", std::move(questions)}};
  const absl::StatusOr<std::string> told =
      Fetch({.what = "misses",
             .address = address_,
             .environment = *environment_,
             .deadline = std::chrono::steady_clock::now() + kDeadline,
             .bytes_max = kReplyBytesMax,
             .input = request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
             .end_fd = end_fd});
  const auto none = [&](absl::string_view why) {
    return std::vector{absl::StrCat(batch.size(), " misses were not told: ", why)};
  };
  if (!told.ok()) return none(told.status().message());
  const std::vector<absl::string_view> notes = absl::StrSplit(*told, '\n', absl::SkipEmpty());
  if (notes.size() != batch.size()) return none("the answer has another count");
  std::vector<std::string> sentences;
  for (size_t i = 0; i < batch.size(); ++i) {
    sentences.push_back(absl::StrCat(batch[i].kernel, " ", TextOf(batch[i].dims), ": ", notes[i]));
  }
  return sentences;
}

}  // namespace tune::library
