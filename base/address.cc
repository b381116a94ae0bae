// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tune {
namespace {

constexpr uint32_t kPortMax = 65535;

}  // namespace

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

absl::StatusOr<HostPort> HostPortOf(const std::string& address) {
  absl::string_view place = address;
  for (const char* scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    absl::ConsumePrefix(&place, scheme);
  }
  const size_t colon = place.rfind(':');
  absl::string_view host = place.substr(0, colon);
  const bool bare = !absl::ConsumePrefix(&host, "[") || !absl::ConsumeSuffix(&host, "]");
  uint32_t port = 0;
  // The colons of "[::1]" and "::1" are no port's.
  const bool has_port = colon != absl::string_view::npos && !host.empty() &&
                        (!bare || host.find(':') == absl::string_view::npos) &&
                        absl::SimpleAtoi(place.substr(colon + 1), &port) && port <= kPortMax;
  if (has_port) return HostPort{std::string(host), std::string(place.substr(colon + 1))};
  return absl::InvalidArgumentError(
      absl::StrCat("'", address, "' is no address: unix:/path or host:port"));
}

}  // namespace tune
