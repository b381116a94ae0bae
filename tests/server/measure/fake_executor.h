// SPDX-License-Identifier: Apache-2.0
// An executor without compilers or a device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/measure/trial_executor.h"

namespace tune::server {

// An attempt at X=`x`.
inline AttemptPtr AttemptAt(int64_t x) {
  auto attempt = std::make_shared<Attempt>();
  attempt->trial.config.entries.emplace_back("X", x);
  return attempt;
}

inline int64_t XOf(const Trial& trial) {
  return std::get<int64_t>(trial.config.entries.at(0).second);
}

class FakeExecutor : public TrialExecutor {
 public:
  std::vector<int64_t> compiled;
  std::vector<int64_t> measured;
  // What a compile does, and gives to its callback, and what a measurement does.
  std::function<absl::Status(Attempt&)> compile;
  std::function<absl::Status(Attempt&)> measure;
  // Callbacks wait for Complete, instead of being called at once.
  bool holds = false;

  void Compile(const AttemptPtr& attempt, Done done) override {
    compiled.push_back(XOf(attempt->trial));
    if (holds) {
      held_.push_back({attempt, std::move(done)});
    } else {
      done(compile ? compile(*attempt) : absl::OkStatus());
    }
  }
  absl::Status Measure(Attempt& attempt) override {
    measured.push_back(XOf(attempt.trial));
    return measure ? measure(attempt) : absl::OkStatus();
  }
  // Ends the compile that was the `place`th to begin.
  void Complete(size_t place) {
    const auto& [attempt, done] = held_[place];
    done(compile ? compile(*attempt) : absl::OkStatus());
  }

 private:
  std::vector<std::pair<AttemptPtr, Done>> held_;
};

}  // namespace tune::server
