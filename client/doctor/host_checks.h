// SPDX-License-Identifier: Apache-2.0
// Checks of the host by what the kernel and NVIDIA's driver show of themselves in /proc and /sys:
// the driver, who may read hardware counters and who holds them, MPS, MIG and the system's clock.
// Reads files only, so it needs no GPU, no driver and no daemon, and waits for nothing.
#pragma once

#include <string>

#include "tune/v1/doctor.pb.h"

namespace tune::client {

struct HostView {
  std::string root;               // of /proc, /sys and /dev; empty: this host's
  std::string counting = "self";  // the process in /proc that would count: a daemon's id, or "self"
  bool clock_is_free = false;     // no time server sets the system's clock
};

void CheckHost(const HostView& host, v1::Diagnosis& diagnosis);

// Adds a check. `advice` is left out of one that is OK.
void AddCheck(v1::Diagnosis& diagnosis, const std::string& name, v1::CheckVerdict verdict,
              const std::string& finding, const std::string& advice = "");

}  // namespace tune::client
