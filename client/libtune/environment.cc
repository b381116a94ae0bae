// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/environment.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/address.h"

extern char** environ;

namespace tune::library {
namespace {

constexpr char kUsualPath[] = "/bin:/usr/bin";  // where PATH is not set

bool IsProgram(const std::string& path) {
  std::error_code error;
  return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, error);
}

}  // namespace

std::shared_ptr<const Environment> Environment::Copy() {
  return std::shared_ptr<const Environment>(new Environment());
}

Environment::Environment() : default_address_(DefaultAddress()) {
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    lines_.emplace_back(*line);
  }
}

std::string Environment::Variable(absl::string_view name) const {
  for (absl::string_view line : lines_) {
    if (absl::ConsumePrefix(&line, name) && absl::ConsumePrefix(&line, "=")) {
      return std::string(line);
    }
  }
  return "";
}

std::string Environment::PathOf(const std::string& program) const {
  if (absl::StrContains(program, '/')) return program;
  const std::string path = Variable("PATH");
  for (const absl::string_view folder : absl::StrSplit(path.empty() ? kUsualPath : path, ':')) {
    std::string place = absl::StrCat(folder.empty() ? "." : folder, "/", program);
    if (IsProgram(place)) return place;
  }
  return "";
}

}  // namespace tune::library
