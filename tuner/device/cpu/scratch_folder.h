// SPDX-License-Identifier: Apache-2.0
// A private folder that is gone, with all in it, when this is.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::cpu {

class ScratchFolder {
 public:
  // In TMPDIR, or in /tmp. UNAVAILABLE: it cannot be made.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make();
  // In the folder `parent`.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> MakeIn(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  // `name` may have folders in it.
  absl::Status Write(const std::string& name, std::string_view text) const;
  // Empty if there is no such file.
  std::string Read(const std::string& name) const;

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace tune::cpu
