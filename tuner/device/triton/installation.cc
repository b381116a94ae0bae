// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/triton/installation.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tuner/device/triton/python_process.h"
#include "tuner/status_macros.h"

namespace tune::embedded {
extern const std::string_view triton_probe;
}

namespace tune::triton {
namespace {

constexpr char kVariable[] = "TUNE_TRITON_PYTHON";
constexpr int kMajorLeast = 3;
constexpr int kMinorLeast = 5;  // before it, two kernels of one factory could get the same code
// What the kernel starts programs with: running one means running this.
constexpr const char* kLoaders[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                    "/lib/ld-linux-x86-64.so.2"};

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool CanRun(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::vector<std::string> Candidates() {
  if (std::string named = Variable(kVariable); !named.empty()) return {std::move(named)};
  std::vector<std::string> candidates;
  const auto add = [&](const std::string& path) {
    const bool known = std::find(candidates.begin(), candidates.end(), path) != candidates.end();
    if (CanRun(path) && !known) candidates.push_back(path);
  };
  if (const std::string venv = Variable("VIRTUAL_ENV"); !venv.empty()) add(venv + "/bin/python3");
  add(TUNE_VENV_DIR "/bin/python3");
  const std::string path = Variable("PATH");
  for (const absl::string_view dir : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    add(absl::StrCat(dir, "/python3"));
  }
  return candidates;
}

std::string RealPath(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  std::string text = real == nullptr ? path : real;
  free(real);
  return text;
}

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

// What one Python has; a sentence where it has no Triton to use.
absl::StatusOr<Installation> Ask(const std::string& python) {
  ASSIGN_OR_RETURN(const std::string output,
                   RunPython(python, {"-E", "-B", "-c", std::string(embedded::triton_probe)}));
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
    return absl::FailedPreconditionError(
        absl::StrCat(python, " has Triton ", found.version, ", which is older than ", kMajorLeast,
                     ".", kMinorLeast));
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
  for (const char* loader : kLoaders) {
    if (access(loader, R_OK) == 0) found.programs.push_back(RealPath(loader));
  }
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
  for (const std::string& python : Candidates()) {
    absl::StatusOr<Installation> found = Ask(python);
    if (found.ok()) return found;
    reasons.emplace_back(found.status().message());
  }
  if (reasons.empty()) reasons.emplace_back("there is no python3 on PATH");
  return absl::FailedPreconditionError(
      absl::StrCat("no Python with Triton ", kMajorLeast, ".", kMinorLeast, " or later: ",
                   absl::StrJoin(reasons, "; "), ". Install it (pip install triton), or name a "
                   "Python that has it by --triton-python or ", kVariable));
}

}  // namespace tune::triton
