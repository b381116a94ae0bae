// SPDX-License-Identifier: Apache-2.0
#include "server/records/safe_configs.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

constexpr size_t kKeptMax = 4096;

std::string KeyOf(const SafeConfigs::Wanted& wanted) {
  const TargetTraits& traits = wanted.traits;
  return absl::StrCat(wanted.kernel->hash(), " ", ToText(wanted.problem), " ", traits.target, " ",
                      traits.sm, " ", traits.max_shared_bytes, " ", traits.sm_count);
}

// Names the constraint that the default config breaks, by the error that it is not valid.
std::string WhatBreaks(const Kernel& kernel, const absl::Status& invalid) {
  for (const ConstraintSpec& constraint : kernel.spec().constraints) {
    const std::string text = absl::StrCat("'", constraint.expression, "'");
    if (absl::StrContains(invalid.message(), "constraint " + text)) return text;
  }
  return "a limit of its launch";
}

}  // namespace

std::optional<absl::StatusOr<SafeConfigs::Safe>> SafeConfigs::Known(const Wanted& wanted) const {
  MutexLock lock(mutex_);
  const auto it = found_.find(KeyOf(wanted));
  return it == found_.end() ? std::nullopt : it->second;
}

absl::StatusOr<SafeConfigs::Safe> SafeConfigs::Find(const Wanted& wanted,
                                                    const Cancelled& cancelled) {
  const std::string key = KeyOf(wanted);
  MutexLock lock(mutex_);
  if (!found_.contains(key)) {
    if (found_.size() >= kKeptMax) {
      std::erase_if(found_, [](const auto& entry) { return entry.second.has_value(); });
    }
    const auto seek = [this, key, wanted] {
      absl::StatusOr<Safe> safe = Seek(wanted);
      MutexLock lock(mutex_);
      found_[key] = std::move(safe);
      changed_.notify_all();
    };
    RETURN_IF_ERROR(executor_.Run(seek).status());
    found_.emplace(key, std::nullopt);
  }
  while (true) {
    const auto it = found_.find(key);
    if (it == found_.end()) return absl::UnavailableError("the safe config was lost; ask again");
    if (it->second.has_value()) {
      const absl::StatusOr<Safe> safe = *it->second;
      if (absl::IsCancelled(safe.status())) found_.erase(it);
      return safe;
    }
    if (cancelled && cancelled()) {
      return absl::CancelledError("cancelled while a safe config was being sought");
    }
    changed_.wait_for(lock.native(), kCancelPollPeriod);
  }
}

absl::StatusOr<SafeConfigs::Safe> SafeConfigs::Seek(const Wanted& wanted) {
  const Kernel& kernel = *wanted.kernel;
  absl::StatusOr<Config> config = kernel.DefaultConfig(wanted.problem, wanted.traits);
  if (config.ok()) return Safe{*std::move(config), "the kernel's default"};
  ASSIGN_OR_RETURN(const Space space,
                   solver_.MakeSpace(
                       kernel, wanted.problem, wanted.traits,
                       [this] { return executor_.stopping(); }, SpaceSolver::Caller::kSweep));
  return Safe{space.At(space.SomeValid()),
              absl::StrCat("some valid config, since the kernel's default breaks ",
                           WhatBreaks(kernel, config.status()))};
}

}  // namespace tune::server
