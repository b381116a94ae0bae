// SPDX-License-Identifier: Apache-2.0
// The manual: the form of every --help, and `tunectl help`, which also writes docs/cli.md.
#pragma once

#include <memory>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"

namespace tune::client {

// help COMMAND, help --markdown; of the commands of `app`.
Command HelpCommand(const CLI::App& app);

// Writes a flag as "--limit N  Maximum number to list (1 to 1000, default 20)".
std::shared_ptr<CLI::FormatterBase> HelpFormatter();

}  // namespace tune::client
