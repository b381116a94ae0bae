// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/watch.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/status_macros.h"

namespace tune::library {
namespace {

using std::chrono::milliseconds;

// A table that somebody writes to is asked again.
constexpr int kReadTriesMax = 100;
constexpr milliseconds kPause(1);

using Dims = std::vector<std::pair<std::string, int64_t>>;
using Asked = std::vector<std::shared_ptr<const KeptAnswer>>;

// The client's questions; nullopt if another thread writes all the time, or the watch is to end.
std::optional<Asked> AskedOf(const JobClient& client, int end_fd) {
  std::optional<Asked> asked = client.Asked();
  for (int tries = 1; !asked.has_value() && tries < kReadTriesMax && !HasEnded(end_fd); ++tries) {
    std::this_thread::sleep_for(kPause);
    asked = client.Asked();
  }
  return asked;
}

double ExpectedLoss(const Answer& answer) {
  return answer.expectation.basis == Basis::kNothing ? std::numeric_limits<double>::infinity()
                                                     : answer.expectation.loss;
}

// The order in which a spec lists its params does not matter.
bool AreEqual(Config a, Config b) {
  std::sort(a.entries.begin(), a.entries.end());
  std::sort(b.entries.begin(), b.entries.end());
  return a == b;
}

// Null: the newer snapshot's spec has other dims, or other bounds.
std::shared_ptr<const KeptAnswer> AskAgain(const JobClient& newer, const KeptAnswer& before) {
  Question question = before.question;
  const Answer& was = before.answer;
  if (!was.dims.empty()) {  // what was filled in may be filled in otherwise by now
    question = {.kernel = was.kernel,
                .dims = {was.dims.begin(), was.dims.end()},
                .dtype = was.dtype,
                .device = was.device};
  }
  QuestionKey key(question.kernel, question.dtype, question.device);
  for (const auto& [name, value] : question.dims) key.AddDim(name, value);
  if (auto there = newer.Find(key.bytes())) return there;
  auto answer = newer.Best(key.bytes(), question);
  return answer.ok() ? *std::move(answer) : nullptr;
}

// Records that came with the program have no number, so their measurements tell them apart.
bool AreSame(const Answer& a, const Answer& b) {
  return a.record == b.record && a.evidence == b.evidence;
}

// The questions of `client` that `newer` answers better; nullopt if the watch is to end, or the
// questions cannot be read.
std::optional<std::vector<Better>> Compare(const JobClient& client, const JobClient& newer,
                                           int end_fd) {
  const std::optional<Asked> asked = AskedOf(client, end_fd);
  if (!asked.has_value()) return std::nullopt;
  std::vector<Better> better;
  // A problem may have been asked for in several ways.
  std::set<std::tuple<std::string, std::string, std::string, Dims>> seen;
  for (const auto& before : *asked) {
    if (HasEnded(end_fd)) return std::nullopt;
    const Answer& was = before->answer;
    const auto& given = before->question.dims;
    const Dims dims = was.dims.empty() ? Dims(given.begin(), given.end()) : was.dims;
    if (!seen.emplace(was.kernel, was.dtype, was.device, dims).second) continue;
    const auto after = AskAgain(newer, *before);
    if (after != nullptr && IsBetter(before->answer, after->answer)) {
      better.push_back({before, after});
    }
  }
  return better;
}

}  // namespace

bool IsBetter(const Answer& before, const Answer& after) {
  const bool same_match = after.match == before.match;
  if (!same_match || AreSame(after, before) || AreEqual(after.config, before.config)) {
    return after.match < before.match;  // from the best to the worst
  }
  if (after.match == lookup::Match::kExact) {
    return after.measured.latency_ns_median < before.measured.latency_ns_median;
  }
  return ExpectedLoss(after) <= ExpectedLoss(before);
}

absl::StatusOr<std::shared_ptr<Watch>> Watch::Open(std::shared_ptr<const JobClient> client,
                                                   milliseconds every) {
  std::shared_ptr<Watch> watch(new Watch(std::move(client)), &Watch::Leave);
  const double fresh = std::min(kFreshSeconds, std::chrono::duration<double>(every).count());
  ASSIGN_OR_RETURN(watch->background_,
                   Background::Start([watch = watch.get(), every, fresh](const Background& thread) {
                     while (!thread.EndsWithin(every)) watch->LookQuietly(fresh, thread.end_fd());
                   }));
  return watch;
}

void Watch::Leave(Watch* watch) {
  if (watch->home_.IsHere()) delete watch;
}

Watch::Found Watch::Newest() const {
  if (!home_.IsHere()) return {};
  MutexLock lock(mutex_);
  return found_;
}

// The next look may have what this one lacked: memory, say.
void Watch::LookQuietly(double fresh_seconds, int end_fd) noexcept {
  try {
    Look(fresh_seconds, end_fd);
  } catch (const std::exception&) {
  }
}

void Watch::Look(double fresh_seconds, int end_fd) {
  if (!home_.IsHere()) return;
  MutexLock lock(mutex_);
  const std::shared_ptr<const JobClient> client = client_;
  const std::shared_ptr<const JobClient> held = found_.newest;
  lock.Unlock();
  const std::string& known = (held != nullptr ? held : client)->digest();
  Found found{.newest = client->NewerThan(known, fresh_seconds, end_fd)};
  // Without a newer snapshot, there may still be newer questions for the one found before.
  const bool is_held = found.newest == nullptr;
  if (is_held) found.newest = held;
  if (found.newest == nullptr) return;
  std::optional<std::vector<Better>> better = Compare(*client, *found.newest, end_fd);
  if (!better.has_value()) return;
  found.better = *std::move(better);
  lock.Lock();
  // Another look, or the job, may have gone on meanwhile.
  if (client == client_ && (!is_held || held == found_.newest)) std::swap(found, found_);
  lock.Unlock();  // what was found before goes without it
}

void Watch::Follow(std::shared_ptr<const JobClient> client) {
  if (!home_.IsHere()) return;
  Found before;
  MutexLock lock(mutex_);
  std::swap(client_, client);
  std::swap(found_, before);
}

}  // namespace tune::library
