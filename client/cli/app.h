// SPDX-License-Identifier: Apache-2.0
// tunectl: the command line. `main` is in server/, the only folder that can start a server in
// process.
#pragma once

#include <set>
#include <string>

#include "client/cli/connection.h"

namespace tune::client {

// Runs one command; returns the exit code (client/report/exit_code.h).
int RunTunectl(int argc, char** argv, EmbeddedServers embedded);

// Long names of the flags that stand beside a kernel's dims in some command: no dim can have one.
std::set<std::string> FlagsBesideDims();

}  // namespace tune::client
