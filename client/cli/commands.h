// SPDX-License-Identifier: Apache-2.0
// The commands of tunectl, each in a file of its own: `Add...` hangs it on the parser, and its
// callback runs it.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/session.h"

namespace tune::client {

// The commands, one file each.
void AddSweep(CLI::App& app, Session& session);              // sweep KERNEL
void AddSweepVerbs(CLI::App& sweep, Session& session);       // sweep list|watch|cancel
void AddKernel(CLI::App& app, Session& session);             // kernel list|show|check
void AddKernelNew(CLI::App& kernel, Session& session);       // kernel new
void AddSpace(CLI::App& app, Session& session);              // space count|show|sample
void AddDevice(CLI::App& app, Session& session);             // device list|show
void AddDeviceMeasures(CLI::App& device, Session& session);  // device ceilings|calibrate
void AddProfile(CLI::App& app, Session& session);            // profile KERNEL
void AddBest(CLI::App& app, Session& session);               // best KERNEL
void AddExplain(CLI::App& app, Session& session);            // explain KERNEL
void AddImport(CLI::App& app, Session& session);             // import SCRIPT
void AddJob(CLI::App& app, Session& session);                // job list|watch|cancel
void AddTrial(CLI::App& app, Session& session);              // trial list
void AddRecord(CLI::App& app, Session& session);             // record list
void AddRecording(CLI::App& app, Session& session);   // recording show|convert|from-sweep|spec
void AddStrategy(CLI::App& app, Session& session);    // strategy list|compare
void AddBench(CLI::App& app, Session& session);       // bench KERNEL...
void AddCompare(CLI::App& app, Session& session);     // compare NAME...
void AddReport(CLI::App& app, Session& session);      // report roofline|sweep|compare
void AddGate(CLI::App& app, Session& session);        // gate
void AddGateVerbs(CLI::App& gate, Session& session);  // gate list|show|recompute|resample
void AddBaseline(CLI::App& app, Session& session);    // baseline set|list
void AddHistory(CLI::App& app, Session& session);     // history KERNEL, history add
void AddSnapshot(CLI::App& app, Session& session);    // snapshot list|show|diff|pin|...
void AddServer(CLI::App& app, Session& session);      // server status, server cache clear
void AddToken(CLI::App& app, Session& session);       // token create|list|revoke

// A check of a flag, which says what is wrong with it: CLI11 takes "-1" for 2^64 - 1.
inline std::string RefuseMinus(const std::string& text) {
  return text.rfind('-', 0) == 0 ? "'" + text + "' is below 0" : "";
}

}  // namespace tune::client
