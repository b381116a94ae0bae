// SPDX-License-Identifier: Apache-2.0
#include "client/library/watch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace tune::library {
namespace {

using std::chrono::milliseconds;

// A table that somebody writes to is asked again.
constexpr int kTriesMax = 100;
constexpr milliseconds kPause(1);

using Dims = std::vector<std::pair<std::string, int64_t>>;
using Asked = std::vector<std::shared_ptr<const KeptAnswer>>;

std::optional<Asked> AskedOf(const JobClient& client) {
  std::optional<Asked> asked = client.Asked();
  for (int tries = 1; !asked.has_value() && tries < kTriesMax; ++tries) {
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

}  // namespace

bool IsBetter(const Answer& before, const Answer& after) {
  const bool same_match = after.match == before.match;
  if (!same_match || after.record == before.record || AreEqual(after.config, before.config)) {
    return after.match < before.match;  // from the best to the worst
  }
  if (after.match == server::Match::kExact) {
    return after.measured.latency_ns_median < before.measured.latency_ns_median;
  }
  return ExpectedLoss(after) <= ExpectedLoss(before);
}

absl::StatusOr<std::shared_ptr<Watch>> Watch::Open(std::shared_ptr<const JobClient> client,
                                                   milliseconds every) {
  std::shared_ptr<Watch> watch(new Watch(std::move(client)), &Watch::Leave);
  auto started = Background::Start([watch = watch.get(), every](const Background& background) {
    while (!background.EndsWithin(every)) watch->Look(background.end_fd());
  });
  if (!started.ok()) return started.status();
  watch->background_ = *std::move(started);
  return watch;
}

void Watch::Leave(Watch* watch) {
  if (watch->home_.IsHere()) delete watch;
}

Watch::Found Watch::Newest() const {
  if (!home_.IsHere()) return {};
  const std::lock_guard lock(mutex_);
  return found_;
}

void Watch::Look(int end_fd) {
  if (!home_.IsHere()) return;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<const JobClient> client = client_;
  const std::string known = (found_.newest != nullptr ? found_.newest : client_)->digest();
  lock.unlock();
  Found found{.newest = client->NewerThan(known, end_fd)};
  if (found.newest == nullptr) return;
  const std::optional<Asked> asked = AskedOf(*client);
  if (!asked.has_value()) return;
  // One problem may have been asked for in several ways.
  std::set<std::tuple<std::string, std::string, std::string, Dims>> seen;
  for (const auto& before : *asked) {
    const Answer& was = before->answer;
    const auto& given = before->question.dims;
    const Dims dims = was.dims.empty() ? Dims(given.begin(), given.end()) : was.dims;
    if (!seen.emplace(was.kernel, was.dtype, was.device, dims).second) continue;
    const auto after = AskAgain(*found.newest, *before);
    if (after != nullptr && IsBetter(before->answer, after->answer)) {
      found.better.push_back({before, after});
    }
  }
  lock.lock();
  if (client == client_) std::swap(found, found_);
  lock.unlock();  // what was found before goes without it
}

void Watch::Follow(std::shared_ptr<const JobClient> client) {
  if (!home_.IsHere()) return;
  Found before;
  const std::lock_guard lock(mutex_);
  std::swap(client_, client);
  std::swap(found_, before);
}

}  // namespace tune::library
