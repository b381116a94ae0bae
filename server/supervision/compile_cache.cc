// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compile_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "server/state/folder_sync.h"
#include "server/worker/convert.h"
#include "tune/worker/v1/worker.pb.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

// Counts up when the key or the contents of an entry change their meaning, and when our own headers
// or front ends make something else of a source.
constexpr absl::string_view kFormat = "tune-compile-6\n";
constexpr size_t kDigestBytes = 32;
constexpr int64_t kEntryBytesMax = int64_t{64} << 20;

// Length first, so that no two different lists of fields give the same text.
void AppendField(std::string& text, absl::string_view field) {
  absl::StrAppend(&text, field.size(), ":", field, "\n");
}

void AppendUnit(std::string& text, const CompileUnit& unit) {
  AppendField(text, unit.source_name);
  AppendField(text, unit.source_text);
  AppendField(text, absl::StrCat(unit.entries.size()));
  for (const std::string& entry : unit.entries) AppendField(text, entry);
  AppendField(text, absl::StrCat(unit.symbols.size()));
  for (const CompileSymbol& symbol : unit.symbols) {
    AppendField(text, symbol.variable);
    AppendField(text, absl::StrCat(symbol.bytes));
  }
  AppendField(text, absl::StrCat(unit.arguments.size()));
  for (const ArgumentHint& argument : unit.arguments) {
    AppendField(text, argument.name);
    AppendField(text, argument.type);
    AppendField(text, absl::StrCat(argument.divisor, " ", argument.is_one ? 1 : 0));
  }
}

absl::Status Failed(const std::string& what, const std::string& path, int error) {
  const std::string message = absl::StrCat(what, " ", path, ": ", strerror(error));
  return error == ENOSPC || error == EDQUOT || error == EFBIG
             ? absl::ResourceExhaustedError(message)
             : absl::UnavailableError(message);
}

// Zero, or an error number.
int WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

absl::Status WriteDurably(const std::string& path, absl::string_view head,
                          absl::string_view payload) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Failed("cannot create", path, errno);
  int error = WriteAll(fd, head);
  if (error == 0) error = WriteAll(fd, payload);
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  return error == 0 ? absl::OkStatus() : Failed("cannot write", path, error);
}

// The whole file, or nothing.
std::optional<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  struct stat info = {};
  std::string bytes;
  if (fstat(fd, &info) == 0 && info.st_size <= kEntryBytesMax) bytes.resize(info.st_size);
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + at, bytes.size() - at);
    if (got <= 0) break;
    at += static_cast<size_t>(got);
  }
  futimens(fd, nullptr);  // used now: eviction takes the oldest
  close(fd);
  bytes.resize(at);
  return bytes;
}

std::optional<Artifact> Decode(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kFormat)) return std::nullopt;
  bytes.remove_prefix(kFormat.size());
  if (bytes.size() < kDigestBytes) return std::nullopt;
  const absl::string_view digest = bytes.substr(0, kDigestBytes);
  bytes.remove_prefix(kDigestBytes);
  worker::v1::Artifact proto;
  if (Sha256(bytes) != digest || !proto.ParseFromArray(bytes.data(), bytes.size())) {
    return std::nullopt;
  }
  absl::StatusOr<Artifact> artifact = FromWire(std::move(proto));
  if (!artifact.ok()) return std::nullopt;
  return *std::move(artifact);
}

struct Entry {
  fs::path path;
  int64_t bytes;
  fs::file_time_type used;
};

std::vector<Entry> ListEntries(const std::string& dir) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;  // another process may evict while we look
    if (!it->is_regular_file(gone)) continue;
    const int64_t bytes = static_cast<int64_t>(it->file_size(gone));
    const fs::file_time_type used = it->last_write_time(gone);
    if (!gone) entries.push_back({it->path(), bytes, used});
  }
  return entries;
}

// The result of a function on the host depends on its arguments, so they are part of the key.
void AppendCall(std::string& text, const HostCall& call) {
  AppendField(text, absl::StrCat(call.seed, " ", ToText(call.wide)));
  AppendField(text, absl::StrCat(call.buffers.size()));
  for (const BufferPlan& buffer : call.buffers) {
    const Fill& fill = buffer.fill;
    AppendField(text, buffer.name);
    AppendField(text, absl::StrCat(ToText(buffer.dtype), " ", absl::StrJoin(buffer.shape, " ")));
    AppendField(text, absl::StrFormat("%d %d %a %a %d %d", static_cast<int>(buffer.role),
                                      static_cast<int>(fill.kind), fill.low, fill.high, fill.rows,
                                      fill.columns));
    AppendField(text, fill.key);
    AppendField(text, absl::StrJoin(fill.lengths, " "));
  }
  for (const ScalarPlan& scalar : call.scalars) {
    AppendField(text, scalar.name);
    AppendField(text, ToText(scalar.value));
  }
  for (const BufferFile& file : call.files) {
    AppendField(text, absl::StrCat(file.buffer, " ", ToText(file.dtype), " ", file.expected));
    AppendField(text, file.elements);
  }
}

}  // namespace

std::string CompileKey(const CompilePlan& plan, const std::string& compiler_version) {
  std::string text(kFormat);
  AppendField(text, plan.origin);
  AppendField(text, ToText(plan.language));
  AppendField(text, compiler_version);
  AppendField(text, plan.target);
  AppendUnit(text,
             {plan.source_name, plan.source_text, plan.entries, plan.symbols, plan.arguments});
  AppendField(text, absl::StrCat(plan.more.size()));
  for (const CompileUnit& unit : plan.more) AppendUnit(text, unit);
  AppendField(text, absl::StrCat(plan.headers.size()));
  for (const SourceFile& header : plan.headers) {
    AppendField(text, header.name);
    AppendField(text, header.text);
  }
  AppendField(text, absl::StrCat(plan.defines.size()));
  for (const auto& [name, value] : plan.defines) {
    AppendField(text, name);
    AppendField(text, value);
  }
  AppendField(text, absl::StrCat(plan.include_roots.size()));
  for (const std::string& name : plan.include_roots) AppendField(text, name);
  AppendField(text, absl::StrCat(plan.options.size()));
  for (const std::string& option : plan.options) AppendField(text, option);
  if (TraitsOf(plan.language).runs_on_host) AppendCall(text, plan.call);
  return Sha256Hex(text);
}

absl::StatusOr<std::unique_ptr<CompileCache>> CompileCache::Open(const std::string& dir,
                                                                 int64_t bytes_max) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot create the compile cache ", dir, ": ", error.message()));
  }
  return std::unique_ptr<CompileCache>(new CompileCache(dir, bytes_max));
}

CompileCache::CompileCache(std::string dir, int64_t bytes_max)
    : dir_(std::move(dir)), bytes_max_(bytes_max) {}

std::string CompileCache::PathOf(const std::string& key) const {
  return absl::StrCat(dir_, "/", key.substr(0, 2), "/", key.substr(2));
}

std::optional<Artifact> CompileCache::Get(const std::string& key) {
  std::optional<Artifact> artifact = Find(key);
  ++(artifact ? hits_ : misses_);
  return artifact;
}

std::optional<Artifact> CompileCache::Find(const std::string& key) {
  const std::string path = PathOf(key);
  std::optional<std::string> bytes = ReadFile(path);
  if (!bytes) return std::nullopt;
  std::optional<Artifact> artifact = Decode(*bytes);
  if (!artifact) {
    unlink(path.c_str());
    MutexLock lock(mutex_);
    if (bytes_ >= 0) bytes_ = std::max<int64_t>(0, bytes_ - static_cast<int64_t>(bytes->size()));
  }
  return artifact;
}

absl::Status CompileCache::Put(const std::string& key, const worker::v1::Artifact& artifact) {
  static std::atomic<uint64_t> serial{0};
  bytes();  // counted before there is one more
  const std::string payload = artifact.SerializeAsString();
  const std::string head = absl::StrCat(kFormat, Sha256(payload));
  const int64_t entry_bytes = static_cast<int64_t>(head.size() + payload.size());
  if (entry_bytes > kEntryBytesMax) {
    return absl::ResourceExhaustedError("an artifact too large to be kept");
  }
  const std::string path = PathOf(key);
  const std::string folder = fs::path(path).parent_path().string();
  if (mkdir(folder.c_str(), 0700) == 0) (void)SyncFolderOf(folder);
  const std::string fresh = absl::StrCat(path, ".", getpid(), ".", ++serial);
  absl::Status written = WriteDurably(fresh, head, payload);
  if (written.ok() && rename(fresh.c_str(), path.c_str()) != 0) {
    written = Failed("cannot rename", fresh, errno);
  } else if (const int error = written.ok() ? SyncFolderOf(path) : 0; error != 0) {
    written = Failed("cannot sync the folder of", path, error);
  }
  if (!written.ok()) {
    unlink(fresh.c_str());
    return written;
  }
  MutexLock lock(mutex_);
  bytes_ += entry_bytes;
  if (bytes_ > bytes_max_) Evict();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CompileCache::Clear() {
  MutexLock lock(mutex_);
  int64_t removed = 0;
  std::string failure;
  for (const Entry& entry : ListEntries(dir_)) {
    if (unlink(entry.path.c_str()) == 0) {
      removed += entry.bytes;
    } else if (errno != ENOENT) {
      failure = absl::StrCat(entry.path.string(), ": ", strerror(errno));
    }
  }
  bytes_ = -1;  // counted anew
  if (failure.empty()) return removed;
  return absl::UnavailableError(
      absl::StrCat("not all of the compile cache could be removed: ", failure));
}

int64_t CompileCache::bytes() {
  MutexLock lock(mutex_);
  if (bytes_ < 0) {
    int64_t bytes = 0;
    for (const Entry& entry : ListEntries(dir_)) bytes += entry.bytes;
    bytes_ = bytes;
  }
  return bytes_;
}

void CompileCache::Evict() {
  std::vector<Entry> entries = ListEntries(dir_);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  int64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  // To nine tenths, so that the next few entries do not each pay for a look at the whole folder.
  for (const Entry& entry : entries) {
    if (bytes <= bytes_max_ / 10 * 9) break;
    std::error_code error;
    if (fs::remove(entry.path, error) && !error) bytes -= entry.bytes;
  }
  bytes_ = bytes;
}

}  // namespace tune::server
