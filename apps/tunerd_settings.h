// SPDX-License-Identifier: Apache-2.0
// The settings of tunerd: its flags, and a file with the same keys (tunerd --config FILE). They are
// read at the start, and again at SIGHUP, when the daemon takes those that IsReloadable names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/server.h"

namespace tune {

struct Settings {
  server::ServerOptions options;
  std::string log_level = "info";
  bool log_json = false;
  std::string web_address;     // of the page; empty: none
  uint32_t drain_seconds = 0;  // that SIGTERM leaves to jobs that cannot go on later
  bool check_config = false;   // check the settings, and do not start
  bool printed = false;        // --help or --version, which is all that was asked for
  // The text of each setting that was given, by its key.
  std::map<std::string, std::string> texts;
};

// INVALID_ARGUMENT: a flag, the file or a key in it is wrong; the error names it.
absl::StatusOr<Settings> ReadSettings(int argc, const char* const* argv);

// The keys that differ, of all or of those that a running daemon takes.
struct ChangedKeys {
  std::vector<std::string> reloadable;
  std::vector<std::string> others;  // they need a restart
};
ChangedKeys Compare(const Settings& before, const Settings& now);

}  // namespace tune
