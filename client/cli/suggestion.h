// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped words.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace tune::client {

// A sentence about the first argument that no command or flag of `app` takes, with what comes
// nearest; empty if all are known. What may be a kernel, or the flag of a dim, is only named when
// it comes near to a verb or flag. With an error only words that it quotes are looked at.
std::string SuggestionFor(const CLI::App& app, const std::vector<std::string>& arguments,
                          const std::string& error = "");

// A sentence about the first word that is one more than its command takes, with the flag that may
// be meant; empty if no word is.
std::string SurplusWordIn(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace tune::client
