// SPDX-License-Identifier: Apache-2.0
// A request for a page, from what a browser sent. Pure.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::client {

struct PageRequest {
  std::string path;                          // decoded, "/sweeps/12"
  std::map<std::string, std::string> query;  // decoded; the first of each name
  std::string token;                         // of the reader; empty: none
};

// Parses the target of a request line, "/sweeps?before=12". INVALID_ARGUMENT: it is no path, or it
// has a broken escape, a control character or text that is not UTF-8.
absl::StatusOr<PageRequest> ParseTarget(absl::string_view target);

// Whether a Host header names this host's loopback, whatever the port: an ssh tunnel has its own. A
// page of another site whose name was pointed at the loopback has its own name there.
bool IsLoopbackHost(absl::string_view host);

// Text as one segment of a path or as a value of a query: "cuda%3A0".
std::string EscapedForUrl(absl::string_view text);

}  // namespace tune::client
