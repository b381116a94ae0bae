// SPDX-License-Identifier: Apache-2.0
// The Pythons of this host.
#pragma once

#include <string>
#include <vector>

namespace tune::python {

// The one that the variable of the environment names; else those of the environment that
// VIRTUAL_ENV names, of this project's own, and python3 on PATH, each once.
std::vector<std::string> Candidates(const char* variable);

// The target of a link; the path itself if it is no link.
std::string RealPath(const std::string& path);

// Adds the programs that a process must be able to run in order to run the interpreter.
void AddLoaders(std::vector<std::string>& programs);

}  // namespace tune::python
