// SPDX-License-Identifier: Apache-2.0
// The commands of tunectl, each in a file of its own: `Add...` hangs it on the parser, and its
// callback runs it.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/session.h"

namespace tune::client {

// The commands that still talk to CLI11, one file each; command.h has the others.
void AddSweep(CLI::App& app, Session& session);              // sweep KERNEL
void AddSweepVerbs(CLI::App& sweep, Session& session);       // sweep list|watch|cancel
void AddDeviceMeasures(CLI::App& device, Session& session);  // device ceilings|calibrate
void AddProfile(CLI::App& app, Session& session);            // profile KERNEL
void AddJob(CLI::App& app, Session& session);                // job list|watch|cancel
void AddBench(CLI::App& app, Session& session);              // bench KERNEL...
void AddCompare(CLI::App& app, Session& session);            // compare NAME...
void AddGate(CLI::App& app, Session& session);               // gate
void AddGateVerbs(CLI::App& gate, Session& session);         // gate list|show|recompute|resample

// A check of a flag, which says what is wrong with it: CLI11 takes "-1" for 2^64 - 1.
inline std::string RefuseMinus(const std::string& text) {
  return text.rfind('-', 0) == 0 ? "'" + text + "' is below 0" : "";
}

}  // namespace tune::client
