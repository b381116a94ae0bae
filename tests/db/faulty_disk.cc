// SPDX-License-Identifier: Apache-2.0
#include "tests/db/faulty_disk.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace tune::db {
namespace {

FaultyDisk* g_disk = nullptr;
sqlite3_vfs* g_real_vfs = nullptr;

// SQLite allocates it, with room for the real file behind it.
struct File {
  sqlite3_file base;
  int last_error;
  const char* name;  // SQLite's, until the file is closed; null: a temporary one
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* AsFile(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return AsFile(file)->real(); }

using Kind = FaultyDisk::Change::Kind;

// Notes a change that the real file has taken; returns its code.
int Note(sqlite3_file* file, int code, Kind kind, int64_t at = 0, std::string bytes = "") {
  const char* const name = AsFile(file)->name;
  if (code == SQLITE_OK && name != nullptr) g_disk->Note({kind, name, at, std::move(bytes)});
  return code;
}

// The code that SQLite's own VFS gives for an error.
int Fail(sqlite3_file* file, int error, int code) {
  AsFile(file)->last_error = error;
  return error == ENOSPC ? SQLITE_FULL : code;
}

const sqlite3_io_methods kMethods = {
    .iVersion = 2,
    .xClose = [](sqlite3_file* file) { return Real(file)->pMethods->xClose(Real(file)); },
    .xRead =
        [](sqlite3_file* file, void* to, int bytes, sqlite3_int64 at) {
          if (const int error = g_disk->read_error) return Fail(file, error, SQLITE_IOERR_READ);
          return Real(file)->pMethods->xRead(Real(file), to, bytes, at);
        },
    .xWrite =
        [](sqlite3_file* file, const void* from, int bytes, sqlite3_int64 at) {
          if (const int error = g_disk->ErrorOf(g_disk->write_error)) {
            return Fail(file, error, SQLITE_IOERR_WRITE);
          }
          const int code = Real(file)->pMethods->xWrite(Real(file), from, bytes, at);
          return Note(file, code, Kind::kWrite, at,
                      std::string(static_cast<const char*>(from), static_cast<size_t>(bytes)));
        },
    .xTruncate =
        [](sqlite3_file* file, sqlite3_int64 bytes) {
          return Note(file, Real(file)->pMethods->xTruncate(Real(file), bytes), Kind::kTruncate,
                      bytes);
        },
    .xSync =
        [](sqlite3_file* file, int flags) {
          g_disk->PassSync();
          if (const int error = g_disk->ErrorOf(g_disk->sync_error)) {
            return Fail(file, error, SQLITE_IOERR_FSYNC);
          }
          return Note(file, Real(file)->pMethods->xSync(Real(file), flags), Kind::kSync);
        },
    .xFileSize =
        [](sqlite3_file* file, sqlite3_int64* bytes) {
          return Real(file)->pMethods->xFileSize(Real(file), bytes);
        },
    .xLock = [](sqlite3_file* file,
                int lock) { return Real(file)->pMethods->xLock(Real(file), lock); },
    .xUnlock = [](sqlite3_file* file,
                  int lock) { return Real(file)->pMethods->xUnlock(Real(file), lock); },
    .xCheckReservedLock =
        [](sqlite3_file* file, int* out) {
          return Real(file)->pMethods->xCheckReservedLock(Real(file), out);
        },
    .xFileControl =
        [](sqlite3_file* file, int operation, void* argument) {
          if (operation == SQLITE_FCNTL_LAST_ERRNO && AsFile(file)->last_error != 0) {
            *static_cast<int*>(argument) = AsFile(file)->last_error;
            return SQLITE_OK;
          }
          return Real(file)->pMethods->xFileControl(Real(file), operation, argument);
        },
    .xSectorSize = [](sqlite3_file* file) { return Real(file)->pMethods->xSectorSize(Real(file)); },
    .xDeviceCharacteristics =
        [](sqlite3_file* file) { return Real(file)->pMethods->xDeviceCharacteristics(Real(file)); },
    .xShmMap =
        [](sqlite3_file* file, int page, int bytes, int extend, void volatile** out) {
          return Real(file)->pMethods->xShmMap(Real(file), page, bytes, extend, out);
        },
    .xShmLock =
        [](sqlite3_file* file, int offset, int count, int flags) {
          return Real(file)->pMethods->xShmLock(Real(file), offset, count, flags);
        },
    .xShmBarrier = [](sqlite3_file* file) { Real(file)->pMethods->xShmBarrier(Real(file)); },
    .xShmUnmap = [](sqlite3_file* file,
                    int remove) { return Real(file)->pMethods->xShmUnmap(Real(file), remove); },
};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  AsFile(file)->last_error = 0;
  AsFile(file)->name = name;
  const int code = g_real_vfs->xOpen(g_real_vfs, name, Real(file), flags, out_flags);
  // A file that did not open has no methods, and is not closed.
  file->pMethods = Real(file)->pMethods != nullptr ? &kMethods : nullptr;
  return code;
}

int Delete(sqlite3_vfs*, const char* name, int sync_folder) {
  const int code = g_real_vfs->xDelete(g_real_vfs, name, sync_folder);
  if (code == SQLITE_OK) g_disk->Note({Kind::kDelete, name});
  return code;
}

}  // namespace

FaultyDisk::FaultyDisk() {
  if (g_disk != nullptr) std::abort();
  g_disk = this;
  g_real_vfs = sqlite3_vfs_find(nullptr);
  vfs_ = *g_real_vfs;
  vfs_.zName = "faulty";
  vfs_.szOsFile = static_cast<int>(sizeof(File)) + g_real_vfs->szOsFile;
  vfs_.xOpen = Open;
  vfs_.xDelete = Delete;
  sqlite3_vfs_register(&vfs_, /*makeDflt=*/1);
}

FaultyDisk::~FaultyDisk() {
  Release();
  sqlite3_vfs_unregister(&vfs_);
  sqlite3_vfs_register(g_real_vfs, /*makeDflt=*/1);
  g_disk = nullptr;
}

void FaultyDisk::FailAfter(int64_t first, int64_t count, int error) {
  fails_with_ = 0;
  operations_ = 0;
  fails_from_ = first;
  fails_until_ = first + count;
  fails_with_ = error;
}

int FaultyDisk::ErrorOf(const std::atomic<int>& error) {
  const int64_t operation = operations_++;
  const bool fails = operation >= fails_from_ && operation < fails_until_;
  return fails && fails_with_ != 0 ? fails_with_.load() : error.load();
}

void FaultyDisk::Note(Change change) {
  if (!remembers_) return;
  std::lock_guard lock(mutex_);
  changes_.push_back(std::move(change));
}

std::vector<FaultyDisk::Change> FaultyDisk::changes() {
  std::lock_guard lock(mutex_);
  return changes_;
}

size_t FaultyDisk::change_count() {
  std::lock_guard lock(mutex_);
  return changes_.size();
}

void FaultyDisk::HangSyncs() {
  std::lock_guard lock(mutex_);
  hang_ = true;
}

void FaultyDisk::Release() {
  std::lock_guard lock(mutex_);
  hang_ = false;
  changed_.notify_all();
}

void FaultyDisk::AwaitHanging() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return hanging_ > 0; });
}

void FaultyDisk::PassSync() {
  std::unique_lock lock(mutex_);
  ++hanging_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !hang_; });
  --hanging_;
}

}  // namespace tune::db
