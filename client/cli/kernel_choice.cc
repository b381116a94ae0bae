// SPDX-License-Identifier: Apache-2.0
#include "client/cli/kernel_choice.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_files.h"

namespace tune::client {

bool IsSpecPath(const std::string& kernel) {
  return kernel.find_first_of("./") != std::string::npos;
}

namespace {

// "alice/attention", unless there is such a file.
bool IsInNameSpace(const std::string& kernel) {
  const size_t slash = kernel.find('/');
  if (slash == 0 || slash == std::string::npos || kernel.front() == '.') return false;
  const bool is_name = kernel.find_first_of("./", slash + 1) == std::string::npos;
  return is_name && slash + 1 < kernel.size() && access(kernel.c_str(), F_OK) != 0;
}

}  // namespace

std::vector<std::string> KernelChoice::All() const {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

absl::Status CheckIsNoDim(const std::string& kernel) {
  std::string text = kernel;
  if (!absl::StrContains(text, '=')) absl::StrReplaceAll({{":", "="}}, &text);
  const absl::StatusOr<DimSweep> dim = ParseDimSweep(text, /*values_max=*/1);
  if (!dim.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", kernel, "' is no kernel; dims are flags: --",
                                                 dim->dim, " ", dim->values.front()));
}

absl::StatusOr<std::string> OneKernel(const KernelChoice& choice) {
  const std::vector<std::string> kernels = choice.All();
  for (const std::string& kernel : kernels) RETURN_IF_ERROR(CheckIsNoDim(kernel));
  if (kernels.size() == 1 && !kernels.front().empty()) return kernels.front();
  return absl::InvalidArgumentError(
      "name one kernel, by its name in the catalogue or the path of a spec; 'tunectl kernel "
      "list' shows the catalogue");
}

absl::StatusOr<std::string> KernelName(const std::string& kernel) {
  if (!IsSpecPath(kernel) || IsInNameSpace(kernel)) return kernel;
  ASSIGN_OR_RETURN(auto files, ReadKernelFiles(kernel));
  if (!files.spec.name().empty()) return files.spec.name();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", kernel, "' is no kernel spec; see what is wrong with `tunectl kernel check`"));
}

}  // namespace tune::client
