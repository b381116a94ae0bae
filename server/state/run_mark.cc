// SPDX-License-Identifier: Apache-2.0
#include "server/state/run_mark.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace tune::server {

RunMark::RunMark(const std::string& state_dir) : path_(state_dir + "/running") {
  const Descriptor mark(
      open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  ended_in_order_ = mark.ok() || errno != EEXIST;
  if (mark.ok() || errno == EEXIST) return;
  spdlog::warn(
      "{} cannot be made ({}): should this daemon be killed, sweeps that it ran are not "
      "counted as having been there",
      path_, std::strerror(errno));
}

void RunMark::EndInOrder() { (void)unlink(path_.c_str()); }

}  // namespace tune::server
