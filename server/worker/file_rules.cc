// SPDX-License-Identifier: Apache-2.0
#include "server/worker/file_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

// Newer than the headers of the systems we build on (linux/landlock.h of Linux 6.12).
constexpr uint64_t kRefer = 1u << 13;        // version 2: moving between folders
constexpr uint64_t kTruncate = 1u << 14;     // version 3
constexpr uint64_t kIoctlDevice = 1u << 15;  // version 5
constexpr uint64_t kBindTcp = 1u << 0;       // version 4
constexpr uint64_t kConnectTcp = 1u << 1;
constexpr uint64_t kScopeAbstractSockets = 1u << 0;  // version 6
constexpr uint64_t kScopeSignals = 1u << 1;
struct RulesetAttributes {
  uint64_t files;
  uint64_t network;
  uint64_t scoped;
};

constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
// No device files, sockets, pipes or links are made in a scratch folder.
constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                            LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                            LANDLOCK_ACCESS_FS_MAKE_REG | kRefer | kTruncate;
constexpr uint64_t kNever = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                            LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                            LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr uint64_t kDevice =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDevice;
// The rights that apply to files other than folders.
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                              LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDevice;

// The rights that a version knows.
uint64_t KnownRights(int version) {
  uint64_t rights = kRead | kWrite | kNever | kIoctlDevice;
  if (version < 5) rights &= ~kIoctlDevice;
  if (version < 3) rights &= ~kTruncate;
  if (version < 2) rights &= ~kRefer;
  return rights;
}

struct Ruleset {
  explicit Ruleset(int opened) : fd(opened) {}
  Ruleset(const Ruleset&) = delete;
  Ruleset& operator=(const Ruleset&) = delete;
  ~Ruleset() {
    if (fd >= 0) close(fd);
  }
  const int fd;
};

absl::Status Failed(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(errno)));
}

absl::Status AllowPath(const Ruleset& ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return absl::OkStatus();
  struct stat about = {};
  if (fstat(fd, &about) == 0 && !S_ISDIR(about.st_mode)) rights &= kOfFiles;
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = rights;
  rule.parent_fd = fd;
  const bool added =
      syscall(__NR_landlock_add_rule, ruleset.fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  const absl::Status status = added ? absl::OkStatus() : Failed(absl::StrCat("no rule for ", path));
  close(fd);
  return status;
}

}  // namespace

absl::StatusOr<int> RestrictFiles(const FileRules& rules) {
  const int version = static_cast<int>(
      syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
  if (version < 1) {
    return Failed(
        "files are not restricted: the kernel, or the container's policy, has no Landlock");
  }
  const uint64_t known = KnownRights(version);
  RulesetAttributes handled = {.files = known, .network = 0, .scoped = 0};
  size_t size = sizeof(handled.files);
  if (version >= 4) {
    handled.network = kBindTcp | kConnectTcp;
    size = sizeof(handled.files) + sizeof(handled.network);
  }
  if (version >= 6) {
    handled.scoped = kScopeAbstractSockets | kScopeSignals;
    size = sizeof(handled);
  }
  const Ruleset ruleset(static_cast<int>(syscall(__NR_landlock_create_ruleset, &handled, size, 0)));
  if (ruleset.fd < 0) return Failed("files are not restricted");
  const uint64_t run = rules.run_readable ? 0 : uint64_t{LANDLOCK_ACCESS_FS_EXECUTE};
  for (const std::string& path : rules.readable) {
    RETURN_IF_ERROR(AllowPath(ruleset, path, kRead & known & ~run));
  }
  for (const std::string& path : rules.writable) {
    RETURN_IF_ERROR(AllowPath(ruleset, path, (kRead | kWrite) & known & ~run));
  }
  for (const std::string& path : rules.programs) {
    RETURN_IF_ERROR(AllowPath(ruleset, path, kRead & known));
  }
  for (const std::string& path : rules.devices) {
    RETURN_IF_ERROR(AllowPath(ruleset, path, kDevice & known));
  }
  if (syscall(__NR_landlock_restrict_self, ruleset.fd, 0) != 0) {
    return Failed("files are not restricted");
  }
  return version;
}

}  // namespace tune::server
