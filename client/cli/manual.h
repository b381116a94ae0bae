// SPDX-License-Identifier: Apache-2.0
// docs/cli.md is written by the program itself (`tunectl help --markdown`), so it cannot drift.
#pragma once

#include "CLI/CLI.hpp"

namespace tune::client {

void AddManual(CLI::App& app);

}  // namespace tune::client
