// SPDX-License-Identifier: Apache-2.0
#include "server/worker/arguments.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tune::server {

absl::StatusOr<WorkerArguments> ParseWorkerArguments(int argc, char** argv) {
  WorkerArguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    bool known = false;
    if (name == "--scratch") {
      arguments.scratch_dir = value;
      known = !value.empty();
    } else if (name == "--ordinal") {
      known = absl::SimpleAtoi(value, &arguments.ordinal);
    } else if (name == "--binary-bytes") {
      known = absl::SimpleAtoi(value, &arguments.binary_bytes_max);
    } else if (name == "--log-bytes") {
      known = absl::SimpleAtoi(value, &arguments.log_bytes_max);
    } else if (name == "--include-root") {
      arguments.include_roots.push_back(value);
      known = !value.empty();
    }
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument '", name, " ", value,
                     "': this program is started by tunerd, with --scratch DIR, --ordinal N, "
                     "--binary-bytes N, --log-bytes N or --include-root NAME=DIR"));
  }
  return arguments;
}

void UseScratchDir(const std::string& dir) {
  if (dir.empty()) return;
  mkdir(dir.c_str(), 0700);
  setenv("TMPDIR", dir.c_str(), 1);
  // Relative names lead nowhere else, whatever folder the daemon was started in.
  (void)!chdir(dir.c_str());
}

}  // namespace tune::server
