// SPDX-License-Identifier: Apache-2.0
// Jobs, sweeps and devices as tables and facts of the page. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/v1/device.pb.h"
#include "tune/v1/job.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {

bool IsUnfinished(const v1::Job& job);
// The sweep of a job's results; its id is 0 if the job is none.
v1::Sweep SweepOf(const v1::Job& job);

// Jobs that run or wait, with the time at which a waiting job may start if every job before it
// on its device says how long it takes.
std::string UnfinishedTableHtml(const std::vector<v1::Job>& jobs);
std::string JobsTableHtml(const std::vector<v1::Job>& jobs);
std::string SweepsTableHtml(const std::vector<v1::Job>& jobs);
std::string DevicesTableHtml(const std::vector<v1::Device>& devices);
std::string DeviceFactsHtml(const v1::Device& device);
// The ceilings of a device with their intervals and their age.
std::string CeilingsTableHtml(const v1::Device& device);

// How far a sweep is: progress, rate, outcomes, the best so far.
std::string ProgressHtml(const v1::Sweep& sweep);
// Why a finished sweep's best is its best: beside it those that cannot be told from it, and the
// default. Empty without a result.
std::string WinnerHtml(const v1::Sweep& sweep);
std::string JobFactsHtml(const v1::Job& job);

}  // namespace tune::client
