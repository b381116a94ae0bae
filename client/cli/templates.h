// SPDX-License-Identifier: Apache-2.0
// Kernels to start from: a folder of client/cli/templates/ for each language, compiled in.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::client {

// "cuda", "ptx": by name.
std::vector<std::string> TemplateLanguages();

// The files of a new kernel, by name. INVALID_ARGUMENT: no such language, or no name for a kernel
// (a lower case letter, then letters, digits, '_' and '-').
absl::StatusOr<std::map<std::string, std::string>> NewKernelFiles(const std::string& name,
                                                                  const std::string& language);

// Writes files into a folder that is made for them. ALREADY_EXISTS: it is there, and not empty.
absl::Status WriteNewFolder(const std::string& folder,
                            const std::map<std::string, std::string>& files);

}  // namespace tune::client
