// SPDX-License-Identifier: Apache-2.0
// The part of a command's --help that is about a kernel: its dims and data types.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/session.h"

namespace tune::client {

// Prints the dims of the first kernel, a name or the path of a spec; prints nothing if there is
// none. NOT_FOUND and others: the kernel does not exist.
absl::Status PrintDims(Session& session, const std::vector<std::string>& kernels);

}  // namespace tune::client
