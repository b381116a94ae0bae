// SPDX-License-Identifier: Apache-2.0
// docs/cli.md is written by the program itself (`tunectl help --markdown`), so it cannot drift.
#pragma once

#include <memory>

#include "CLI/CLI.hpp"

namespace tune::client {

void AddManual(CLI::App& app);

// Writes a flag as "--limit N  Maximum number to list (1 to 1000, default 20)".
std::shared_ptr<CLI::FormatterBase> HelpFormatter();

}  // namespace tune::client
