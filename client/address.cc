// SPDX-License-Identifier: Apache-2.0
#include "client/address.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tune::client {

std::string DefaultAddress() {
  if (const char* address = std::getenv("TUNE_ADDRESS"); address != nullptr && *address != 0) {
    return address;
  }
  if (getuid() == 0) return "unix:/run/tunerd/tunerd.sock";
  if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir != nullptr && *dir != 0) {
    return absl::StrCat("unix:", dir, "/tunerd.sock");
  }
  return absl::StrCat("unix:/tmp/tunerd-", getuid(), "/tunerd.sock");
}

std::string SocketPath(const std::string& address) {
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix:")) return "";
  absl::ConsumePrefix(&path, "//");
  return std::string(path);
}

}  // namespace tune::client
