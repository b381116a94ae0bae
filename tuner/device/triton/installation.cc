// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/triton/installation.h"

#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tuner/device/python/interpreters.h"
#include "tuner/device/python/python_process.h"

namespace tune::embedded {
extern const std::string_view triton_probe;
}

namespace tune::triton {

using python::AddLoaders;
using python::Candidates;
using python::PythonScript;
using python::RealPath;
using python::RunPython;
using python::TextIn;
namespace {

constexpr char kVariable[] = "TUNE_TRITON_PYTHON";
constexpr int kMajorLeast = 3;
constexpr int kMinorLeast = 5;  // before it, two kernels of one factory could get the same code
bool IsRecent(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int major = 0;
  int minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) ||
      !absl::SimpleAtoi(parts[1], &minor)) {
    return false;
  }
  return major > kMajorLeast || (major == kMajorLeast && minor >= kMinorLeast);
}

// The installation of one Python; an error with a sentence if it has no usable Triton.
absl::StatusOr<Installation> Ask(const std::string& python) {
  const std::string script = PythonScript(std::string(embedded::triton_probe));
  ASSIGN_OR_RETURN(const std::string output, RunPython(python, {"-E", "-B", "-c", script}));
  const nlohmann::json about = nlohmann::json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!about.is_object()) {
    return absl::FailedPreconditionError(absl::StrCat(python, " does not run"));
  }
  Installation found;
  found.python = TextIn(about, "program");
  found.version = TextIn(about, "version");
  if (found.version.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(python, " has no Triton"));
  }
  if (!IsRecent(found.version)) {
    return absl::FailedPreconditionError(absl::StrCat(python, " has Triton ", found.version,
                                                      ", which is older than ", kMajorLeast, ".",
                                                      kMinorLeast));
  }
  std::vector<std::string> releases;
  found.programs.push_back(TextIn(about, "executable"));
  for (const nlohmann::json& ptxas : about.value("ptxas", nlohmann::json::array())) {
    releases.push_back(TextIn(ptxas, "release"));
    found.programs.push_back(RealPath(TextIn(ptxas, "path")));
  }
  if (releases.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(python, " has Triton ", found.version, " without its ptxas"));
  }
  found.ptxas = absl::StrJoin(releases, " and ");
  AddLoaders(found.programs);
  for (const nlohmann::json& path : about.value("paths", nlohmann::json::array())) {
    if (path.is_string()) found.readable.push_back(path.get<std::string>());
  }
  found.readable.push_back(TextIn(about, "folder"));
  return found;
}

}  // namespace

std::string Installation::Text() const {
  return absl::StrCat("Triton ", version, ", ptxas ", ptxas);
}

absl::StatusOr<Installation> FindTriton() {
  std::vector<std::string> reasons;
  for (const std::string& python : Candidates(kVariable)) {
    absl::StatusOr<Installation> found = Ask(python);
    if (found.ok()) return found;
    reasons.emplace_back(found.status().message());
  }
  if (reasons.empty()) reasons.emplace_back("there is no python3 on PATH");
  return absl::FailedPreconditionError(absl::StrCat("no Python with Triton ", kMajorLeast, ".",
                                                    kMinorLeast,
                                                    " or later: ", absl::StrJoin(reasons, "; "),
                                                    ". Install it (pip install triton), or name a "
                                                    "Python that has it by --triton-python or ",
                                                    kVariable));
}

}  // namespace tune::triton
