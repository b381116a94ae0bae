// SPDX-License-Identifier: Apache-2.0
#include "db/checks.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

// From the kernel's magic.h and the projects' own headers, for those that are not in it.
constexpr struct {
  uint32_t type;
  const char* name;
} kNetworkFileSystems[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},        {0xfe534d42, "SMB"},  {0xff534d42, "CIFS"},
    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x00c36400, "Ceph"}, {0x65735546, "FUSE"},
    {0x5346414f, "AFS"},    {0x19830326, "BeeGFS"},
};

// "tunectl (process 17)", by the id that the holder wrote into the file.
std::string ReadOwner(int descriptor) {
  char buffer[32];
  const ssize_t size = pread(descriptor, buffer, sizeof(buffer), 0);
  if (size <= 0) return "an unknown process";
  const absl::string_view id =
      absl::StripSuffix(absl::string_view(buffer, static_cast<size_t>(size)), "\n");
  std::ifstream comm(absl::StrCat("/proc/", id, "/comm"));
  std::string program;
  if (!std::getline(comm, program) || program.empty()) return absl::StrCat("process ", id);
  return absl::StrCat(program, " (process ", id, ")");
}

// A second lock on the same file, which unlike the first can be asked about without being taken.
struct flock WholeFile() {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

}  // namespace

const char* NetworkFileSystemName(uint64_t type) {
  for (const auto& file_system : kNetworkFileSystems) {
    // f_type is a signed long on some platforms: compare its low 32 bits only.
    if (static_cast<uint32_t>(type) == file_system.type) return file_system.name;
  }
  return nullptr;
}

absl::Status CheckFileSystem(const std::string& path) {
  const char* allow = std::getenv("TUNE_ALLOW_NETWORK_FS");
  if (allow != nullptr && absl::string_view(allow) == "1") return absl::OkStatus();
  const std::string folder = std::filesystem::path(path).parent_path().string();
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, absl::StrCat("cannot use the folder ", folder));
  }
  const char* name = NetworkFileSystemName(static_cast<uint64_t>(info.f_type));
  if (name == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " is on a network file system (", name,
      "), whose locks cannot protect a database; choose a folder on a local disk, or set "
      "TUNE_ALLOW_NETWORK_FS=1 to take the risk"));
}

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path) {
  const std::string lock_path = absl::StrCat(path, ".lock");
  const int descriptor = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    const int error = errno;
    const bool denied = error == EACCES || error == EPERM || error == EROFS;
    const std::string what = absl::StrCat("cannot open ", lock_path, ": ", std::strerror(error));
    if (!denied) return absl::ErrnoToStatus(error, what);
    return absl::PermissionDeniedError(absl::StrCat(
        what, "; the folder and the files in it must be writable by the user that runs this"));
  }
  std::unique_ptr<FileLock> lock(new FileLock(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK) {
      return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", lock_path));
    }
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is in use by ", ReadOwner(descriptor), " (it holds ", lock_path,
                     "); stop that process, or choose another folder"));
  }
  struct flock whole = WholeFile();
  fcntl(descriptor, F_OFD_SETLK, &whole);  // for Holder alone
  // The id is for people only, so a full disk here is no reason to stop.
  const std::string owner = absl::StrCat(getpid(), "\n");
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    return lock;
  }
  return lock;
}

std::string FileLock::Holder(const std::string& path) {
  const std::string lock_path = absl::StrCat(path, ".lock");
  const int descriptor = open(lock_path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return "";
  struct flock whole = WholeFile();
  const bool held = fcntl(descriptor, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
  const std::string holder = held ? ReadOwner(descriptor) : "";
  close(descriptor);
  return holder;
}

// The file stays: removing it would let two processes hold locks on two files of the same name.
FileLock::~FileLock() { close(descriptor_); }

namespace {

// Ends a connection's work once it is cancelled. The check is one long step of SQLite's, which
// never asks but can be interrupted.
class Interrupter {
 public:
  Interrupter(SqliteConnection& connection, const Cancelled& cancelled) {
    if (!cancelled) return;
    thread_ = std::thread([this, &connection, &cancelled] {
      MutexLock lock(mutex_);
      while (!changed_.wait_for(lock.native(), kBetween,
                                [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_; })) {
        if (cancelled()) sqlite3_interrupt(connection.handle());
      }
    });
  }
  ~Interrupter() {
    {
      MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  static constexpr std::chrono::milliseconds kBetween{20};
  Mutex mutex_;
  std::condition_variable changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

absl::Status QuickCheck(SqliteConnection& connection, const std::string& path,
                        const Cancelled& cancelled) {
  absl::StatusOr<std::string> finding;
  {
    const Interrupter interrupter(connection, cancelled);
    finding = connection.QueryText("PRAGMA quick_check(1)");
  }
  if (cancelled && cancelled()) return absl::CancelledError("the check was ended");
  RETURN_IF_ERROR(finding.status());
  if (*finding == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", *finding,
                                          "; move it aside, or put a backup in its place"));
}

}  // namespace tune::db
