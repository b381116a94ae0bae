// SPDX-License-Identifier: Apache-2.0
// The kernels of a revision: of a git commit, of a folder, or a single spec.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/git_repository.h"
#include "tune/v1/kernel.pb.h"

namespace tune::client {

struct KernelSet {
  std::string label;                                // the commit, or what the user wrote
  std::map<std::string, v1::KernelSource> kernels;  // by the spec's name
};

// `where` is a .textproto file, a folder (itself or its `folder` holding <op>/<op>.textproto), or a
// git revision, read from git's objects without touching the working tree. INVALID_ARGUMENT: none
// of these, no kernels there, two of one name, a spec that does not parse, or a file that is not
// read (client/cli/kernel_files.h). DEADLINE_EXCEEDED: git did not answer.
absl::StatusOr<KernelSet> ReadKernelSet(const std::string& where, const std::string& folder,
                                        const GitOptions& options = {});

}  // namespace tune::client
