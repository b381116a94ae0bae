// SPDX-License-Identifier: Apache-2.0
#include "server/records/safe_configs.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);
constexpr size_t kKeptMax = 4096;

std::string KeyOf(const SafeConfigs::Wanted& wanted) {
  const TargetTraits& traits = wanted.traits;
  return absl::StrCat(wanted.kernel->hash(), " ", ToText(wanted.problem), " ", traits.target, " ",
                      traits.sm, " ", traits.max_shared_bytes, " ", traits.sm_count);
}

}  // namespace

std::optional<absl::StatusOr<Config>> SafeConfigs::Known(const Wanted& wanted) const {
  std::lock_guard lock(mutex_);
  const auto it = found_.find(KeyOf(wanted));
  return it == found_.end() ? std::nullopt : it->second;
}

absl::StatusOr<Config> SafeConfigs::Find(const Wanted& wanted, const Cancelled& cancelled) {
  const std::string key = KeyOf(wanted);
  std::unique_lock lock(mutex_);
  if (!found_.contains(key)) {
    if (found_.size() >= kKeptMax) {
      std::erase_if(found_, [](const auto& entry) { return entry.second.has_value(); });
    }
    const auto seek = [this, key, wanted] {
      absl::StatusOr<Config> config = Seek(wanted);
      std::lock_guard lock(mutex_);
      found_[key] = std::move(config);
      changed_.notify_all();
    };
    RETURN_IF_ERROR(executor_.Run(seek).status());
    found_.emplace(key, std::nullopt);
  }
  while (true) {
    const auto it = found_.find(key);
    if (it == found_.end()) return absl::UnavailableError("the safe config was lost; ask again");
    if (it->second.has_value()) {
      const absl::StatusOr<Config> config = *it->second;
      if (absl::IsCancelled(config.status())) found_.erase(it);
      return config;
    }
    if (cancelled && cancelled()) {
      return absl::CancelledError("cancelled while a safe config was being sought");
    }
    changed_.wait_for(lock, kPatience);
  }
}

absl::StatusOr<Config> SafeConfigs::Seek(const Wanted& wanted) {
  const Kernel& kernel = *wanted.kernel;
  absl::StatusOr<Config> config = kernel.DefaultConfig(wanted.problem, wanted.traits);
  if (config.ok()) return config;
  ASSIGN_OR_RETURN(const Space space,
                   solver_.MakeSpace(
                       kernel, wanted.problem, wanted.traits,
                       [this] { return executor_.stopping(); }, SpaceSolver::Caller::kSweep));
  return space.At(space.SomeValid());
}

}  // namespace tune::server
