// SPDX-License-Identifier: Apache-2.0
// The part of a store that hosts share: who they are, and which of them has which job.
//
// A host joins and gets a lease, which it keeps by beating. Every unfinished job is of one lease or
// of none. A host claims jobs that are nobody's, and jobs that wait at another host. Once a host is
// seen to beat no more, another one ends its lease, and its jobs are nobody's. Whatever the store
// is given for a job by a host that has not the job's lease is refused with ABORTED, in the
// transaction that would store it, so a host that was paused or cut off can do no harm later.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fields.h"
#include "db/job.h"

namespace tune::db {

struct HostRow {
  int64_t lease = 0;
  std::string name;
  std::string state_dir;  // with the name: the same daemon, if it joins again
  std::string address;
  std::string version;
  std::string devices;  // JSON: {"cuda:0":"NVIDIA H200"}
  int64_t joined_unix_ms = 0;
};
TUNE_FIELDS(HostRow, lease, name, state_dir, address, version, devices, joined_unix_ms);

// A host as others see it.
struct HostView {
  HostRow row;
  bool drained = false;
  uint32_t running_jobs = 0;
  uint32_t waiting_jobs = 0;
};

// Thread-safe.
class FleetStore {
 public:
  virtual ~FleetStore() = default;

  // Takes a new lease for this process, under which the store writes from then on, and ends that of
  // the daemon of the same name and state folder, which is gone.
  virtual absl::StatusOr<int64_t> Join(const HostRow& host) = 0;
  // Says that the host is there, with its devices as they are now. ABORTED: its lease was ended.
  virtual absl::Status Beat(const std::string& devices) = 0;
  // How often each lease has beaten.
  virtual absl::StatusOr<std::map<int64_t, int64_t>> Beats() = 0;
  // Ends a lease, unless it has beaten since. Its jobs are nobody's then.
  virtual absl::Status EndLease(int64_t lease, int64_t beats) = 0;

  // Ends this process's own lease.
  virtual absl::Status Leave() = 0;

  // Claims at most `limit` unfinished jobs for devices of this name: jobs of no host, and those
  // that have waited at another host for a moment. A sweep may run on any such device; other jobs
  // name the one that they run on by its id, which must be among `device_ids`.
  virtual absl::StatusOr<std::vector<JobRow>> Claim(const std::string& device_name,
                                                    const std::vector<std::string>& device_ids,
                                                    uint32_t limit) = 0;
  // The jobs among these that this host has no more, and those that it is asked to cancel.
  struct Asked {
    std::vector<int64_t> lost;
    std::vector<int64_t> cancelled;
  };
  virtual absl::StatusOr<Asked> AskedOf(const std::vector<int64_t>& job_ids) = 0;
  // Asks the host that has the job to cancel it.
  virtual absl::Status AskToCancel(int64_t job_id) = 0;
  // The names of the hosts that have unfinished jobs, by the jobs' ids.
  virtual absl::StatusOr<std::map<int64_t, std::string>> Holders() = 0;

  virtual absl::StatusOr<std::vector<HostView>> Hosts() = 0;  // by name
  // Drained hosts claim and start no jobs. NOT_FOUND: no host of the name.
  virtual absl::Status SetDrained(const std::string& name, bool drained) = 0;
  virtual absl::StatusOr<bool> IsDrained(const std::string& name) = 0;
};

}  // namespace tune::db
