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
#include "server/access/principals.h"
#include "server/devices/devices.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/kernels/catalogue.h"
#include "server/measure/session.h"
#include "server/records/record_book.h"
#include "server/supervision/workers.h"
#include "server/workload/workload.h"
#include "tune/v1/profile.pb.h"
#include "tuner/roofline/roofline.h"
#include "tuner/trial_key.h"

namespace tune::server {

struct ProfileTools {
  const Catalogue& catalogue;
  db::Store& store;
  Workers& workers;
  const Devices& devices;
  RecordBook& records;
};

// All must outlive the kind.
JobKind ProfileKind(const ProfileTools& tools, const Principals& principals);

// Times a program in the session's first twin, and sets what the profile says of its time.
absl::Status TimeProfiled(Session& session, const RunRequest& request, const Roof& roof,
                          Profile& profile);

inline constexpr uint32_t kProfiledMax = 32;  // configs of one request

// Not thread-safe: one run.
class ProfileJob : public JobWork {
 public:
  // All must outlive the job.
  // `name_space`: of a kernel that the request brings.
  ProfileJob(const ProfileTools& tools, v1::SubmitProfileRequest request,
             const std::string& name_space = "")
      : tools_(tools),
        request_(std::move(request)),
        name_space_(request_.has_kernel_source() ? name_space : "") {}

  // What is to be profiled. See SubmitProfile in profile.proto for errors.
  absl::Status Check(absl::Time deadline, const Cancelled& cancelled);
  const Workload& workload() const { return workload_; }

  // Each profile is stored, then told as a result. REQUIRES: Check succeeded.
  End Run(JobContext& context) override;
  std::string Name() const override { return "a profile"; }
  size_t source_bytes() const override { return SourceBytesOf(workload_.kernel()); }

 private:
  struct Item {
    Profile profile;
    ProgramPlan plan;
    CompileResult compiled;
    bool timed = false;  // its time is known, from the store
  };

  absl::Status CheckRequest();
  absl::Status ChooseConfigs(const Cancelled& cancelled);
  absl::Status AddExplicit(const v1::Config& wanted);
  absl::Status AddBest(const Cancelled& cancelled);
  absl::Status AddTop(uint32_t count);
  absl::Status AddTrial(int64_t id);
  void Add(const Config& config);
  void AddTimed(const Trial& trial);
  absl::StatusOr<const std::vector<Trial>*> KnownTrials();

  // The device that the job got: of several alike, not always the preferred one.
  absl::Status TakeDevice(JobContext& context);
  absl::Status CompileAll(JobContext& context);
  absl::Status TimeAll(JobContext& context);
  Roof RoofOfDevice() const;
  absl::Status CountAll(JobContext& context);
  // Sets the message of every item that could not be counted at all.
  void NotCounted(const std::string& why);
  absl::Status StoreAll(JobContext& context);
  bool Runs(const Item& item) const { return item.profile.outcome == Outcome::kOk; }

  const ProfileTools tools_;
  const v1::SubmitProfileRequest request_;
  const std::string name_space_;

  Workload workload_;
  DeviceView device_;  // that it runs on, once it runs
  TrialKey key_;
  MetricSet set_ = MetricSet::kDefault;
  std::string reference_binary_;
  std::optional<std::vector<Trial>> known_;
  std::vector<Item> items_;
};

}  // namespace tune::server
