// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/answer_table.h"

#include <mutex>
#include <utility>

namespace tune::library {
namespace {

constexpr size_t kAnswersMax = 4096;  // that are kept

}  // namespace

AnswerTable::~AnswerTable() {
  // In a child that was forked while somebody wrote, they may be in the middle of anything.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) static_cast<void>(answers_.release());
}

std::shared_ptr<const KeptAnswer> AnswerTable::Find(absl::string_view key) const {
  const std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  const auto found = answers_->find(key);
  return found == answers_->end() ? nullptr : found->second;
}

void AnswerTable::Keep(absl::string_view key, std::shared_ptr<const KeptAnswer> answer) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  if (answers_->size() >= kAnswersMax) answers_->clear();
  (*answers_)[key] = std::move(answer);
}

std::optional<std::vector<std::shared_ptr<const KeptAnswer>>> AnswerTable::All() const {
  const std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  std::vector<std::shared_ptr<const KeptAnswer>> all;
  all.reserve(answers_->size());
  for (const auto& [key, answer] : *answers_) all.push_back(answer);
  return all;
}

}  // namespace tune::library
