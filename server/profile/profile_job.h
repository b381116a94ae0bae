// SPDX-License-Identifier: Apache-2.0
// One request to profile: compiles the configs, times them in one process, counts them in another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/kernels/catalogue.h"
#include "server/devices/devices.h"
#include "server/supervision/workers.h"
#include "server/records/record_book.h"
#include "tune/v1/profile.pb.h"

namespace tune::server {

struct ProfileTools {
  const Catalogue& catalogue;
  db::Store& store;
  Workers& workers;
  Devices& devices;
  RecordBook& records;
};

inline constexpr uint32_t kProfiledMax = 32;  // configs of one request

// Not thread-safe: one run.
class ProfileJob {
 public:
  using Tell = std::function<void(v1::ProfileEvent)>;

  // All must outlive the job. `cancelled` may not be empty.
  ProfileJob(const ProfileTools& tools, const v1::RunProfileRequest& request, Cancelled cancelled,
             Tell tell)
      : tools_(tools),
        request_(request),
        cancelled_(std::move(cancelled)),
        tell_(std::move(tell)) {}

  // Each profile is stored, then told. See RunProfile in profile.proto for errors.
  absl::Status Run(absl::Time deadline);

 private:
  struct Item {
    Profile profile;
    ProgramPlan plan;
    std::string binary;
    bool timed = false;  // its time is known, from the store
  };

  absl::Status ResolveKernel();
  absl::Status ResolveProblem(absl::Time deadline);
  absl::Status ChooseConfigs();
  absl::Status AddExplicit(const v1::Config& wanted);
  absl::Status AddBest();
  absl::Status AddTop(uint32_t count);
  absl::Status AddTrial(int64_t id);
  void Add(const Config& config);
  void AddTimed(const Trial& trial);
  absl::StatusOr<const std::vector<Trial>*> KnownTrials();

  absl::Status CompileAll();
  absl::Status TimeAll();
  absl::Status TimeOne(DeviceSupervisor& lease, Item& item);
  absl::Status CountAll();
  // Sets the message of every item that could not be counted at all.
  void NotCounted(const std::string& why);
  absl::Status StoreAll();
  void Step(const std::string& step);
  bool Runs(const Item& item) const { return item.profile.outcome == Outcome::kOk; }

  const ProfileTools tools_;
  const v1::RunProfileRequest& request_;
  const Cancelled cancelled_;
  const Tell tell_;

  NamedKernel named_;
  DeviceView device_;
  TargetTraits traits_;
  db::TrialKey key_;
  Config defaults_;  // of params not given; together they may be invalid
  MetricSet set_ = MetricSet::kDefault;
  ProblemPlan problem_plan_;
  std::string reference_binary_;
  std::optional<std::vector<Trial>> known_;
  std::vector<Item> items_;
};

}  // namespace tune::server
