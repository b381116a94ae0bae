// SPDX-License-Identifier: Apache-2.0
// The commands of tunectl, each in a file of its own: `Add...` hangs it on the parser, and its
// callback runs it.
#pragma once

#include "CLI/CLI.hpp"
#include "client/session.h"

namespace tune::client {

void AddSweep(CLI::App& app, Session& session);  // sweep KERNEL, sweep list|watch|cancel
void AddSweepVerbs(CLI::App& sweep, Session& session);
void AddKernel(CLI::App& app, Session& session);  // kernel list|show|check
void AddSpace(CLI::App& app, Session& session);   // space count|show|sample
void AddDevice(CLI::App& app, Session& session);  // device list|show
void AddBest(CLI::App& app, Session& session);    // best KERNEL
void AddTrial(CLI::App& app, Session& session);   // trial list
void AddReport(CLI::App& app, Session& session);  // report roofline|sweep
void AddServer(CLI::App& app, Session& session);  // server status

}  // namespace tune::client
