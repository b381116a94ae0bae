// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/python/interpreters.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tune::python {
namespace {

// The dynamic loaders, with which the kernel starts programs: running a program runs its loader.
constexpr const char* kLoaders[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                    "/lib/ld-linux-x86-64.so.2"};

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool CanRun(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

}  // namespace

std::vector<std::string> Candidates(const char* variable) {
  if (std::string named = Variable(variable); !named.empty()) return {std::move(named)};
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

void AddLoaders(std::vector<std::string>& programs) {
  for (const char* loader : kLoaders) {
    if (access(loader, R_OK) == 0) programs.push_back(RealPath(loader));
  }
}

}  // namespace tune::python
