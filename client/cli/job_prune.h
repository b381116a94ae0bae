// SPDX-License-Identifier: Apache-2.0
// tunectl job prune: what finished jobs stored is removed.
#pragma once

#include "CLI/CLI.hpp"
#include "client/cli/commands.h"

namespace tune::client {

// Adds the verb to `job`.
void AddJobPrune(CLI::App& job, Session& session);

}  // namespace tune::client
