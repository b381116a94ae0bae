// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/scratch_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace tune::cpu {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make() {
  const char* parent = getenv("TMPDIR");
  return MakeIn(parent != nullptr && *parent != '\0' ? parent : "/tmp");
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::MakeIn(const std::string& parent) {
  std::string path = absl::StrCat(parent, "/tune-cpu-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("no scratch folder ", path, ": ", strerror(errno)));
  }
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

absl::Status ScratchFolder::Write(const std::string& name, std::string_view text) const {
  const fs::path file = fs::path(path_) / name;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  std::ofstream stream(file, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", file.string(), ": ", strerror(errno)));
}

std::string ScratchFolder::Read(const std::string& name) const {
  std::ifstream stream(fs::path(path_) / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace tune::cpu
