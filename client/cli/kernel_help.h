// SPDX-License-Identifier: Apache-2.0
// `--help` of a command that is about a kernel: with one named, also its dims and data types.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/cli/session.h"

namespace tune::client {

// Takes the place of the command's own flag. The command's callback asks, and prints.
class KernelHelp {
 public:
  explicit KernelHelp(CLI::App& command);
  KernelHelp(const KernelHelp&) = delete;  // the parser knows its address
  KernelHelp& operator=(const KernelHelp&) = delete;

  bool asked() const { return asked_; }
  // `kernel`: a name, the path of a spec, or empty. NOT_FOUND and others: there is no such kernel.
  absl::Status Print(Session& session, const std::string& kernel) const;

 private:
  const CLI::App& command_;
  bool asked_ = false;
};

}  // namespace tune::client
