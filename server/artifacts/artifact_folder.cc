// SPDX-License-Identifier: Apache-2.0
#include "server/artifacts/artifact_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/artifacts/artifact_text.h"
#include "server/state/paths.h"
#include "server/state/whole_file.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".artifact";
constexpr char kMember[] = "\"artifact\":\"";
constexpr size_t kMemberBytes = sizeof(kMember) - 1;
constexpr size_t kDigestBytes = 71;
constexpr size_t kScanBytes = size_t{4} << 20;
// Users who may enter the folder of the snapshots may read the artifacts.
constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0644;
// A new file may belong to a record that is about to be in a snapshot.
constexpr std::chrono::minutes kGrace(10);

struct Entry {
  fs::path path;
  int64_t bytes = 0;
  fs::file_time_type written;
};

std::vector<Entry> EntriesOf(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (it->path().extension() != kSuffix || !it->is_regular_file(gone)) continue;
    const auto bytes = static_cast<int64_t>(it->file_size(gone));
    const fs::file_time_type written = it->last_write_time(gone);
    if (!gone) entries.push_back({it->path(), bytes, written});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.written < b.written; });
  return entries;
}

// Adds the files that a snapshot names. A piece begins early enough to have what the last one cut.
void AddNamed(const std::string& snapshot, std::set<std::string>& names) {
  constexpr uint64_t kOverlap = kMemberBytes + kDigestBytes;
  for (uint64_t offset = 0;; offset += kScanBytes - kOverlap) {
    const std::optional<std::string> piece = ReadPiece(snapshot, kScanBytes, offset);
    if (!piece || piece->empty()) return;
    for (size_t at = piece->find(kMember); at != std::string::npos;
         at = piece->find(kMember, at + 1)) {
      const std::string digest = piece->substr(at + kMemberBytes, kDigestBytes);
      if (IsDigest(digest)) names.insert(FileNameOf(digest, kSuffix));
    }
    if (piece->size() < kScanBytes) return;
  }
}

}  // namespace

ArtifactFolder::ArtifactFolder(std::string snapshot_dir, Use use, int64_t bytes_max)
    : snapshot_dir_(std::move(snapshot_dir)),
      path_(absl::StrCat(snapshot_dir_, "/artifacts")),
      use_(use),
      bytes_max_(bytes_max) {}

absl::StatusOr<std::unique_ptr<ArtifactFolder>> ArtifactFolder::Open(
    const std::string& snapshot_dir, Use use, int64_t bytes_max) {
  std::unique_ptr<ArtifactFolder> folder(new ArtifactFolder(snapshot_dir, use, bytes_max));
  if (use == Use::kRead) return folder;
  std::error_code error;
  const bool is_new = !fs::exists(folder->path_, error);
  RETURN_IF_ERROR(MakePrivateDir(folder->path_));
  if (is_new && chmod(folder->path_.c_str(), kFolderMode) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("chmod ", folder->path_));
  }
  for (const auto& entry : fs::directory_iterator(folder->path_, error)) {
    std::error_code ignored;
    const bool left = absl::StartsWith(entry.path().filename().string(), kUnfinished);
    if (left) fs::remove(entry.path(), ignored);
  }
  return folder;
}

std::string ArtifactFolder::FileOf(absl::string_view digest) const {
  return absl::StrCat(path_, "/", FileNameOf(digest, kSuffix));
}

std::set<std::string> ArtifactFolder::Named() const {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(snapshot_dir_, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".json") AddNamed(it->path().string(), names);
  }
  return names;
}

absl::Status ArtifactFolder::MakeRoom(int64_t bytes) {
  const std::vector<Entry> entries = EntriesOf(path_);
  int64_t all = bytes;
  for (const Entry& entry : entries) all += entry.bytes;
  if (all <= bytes_max_) return absl::OkStatus();
  const std::set<std::string> named = Named();
  const fs::file_time_type young = fs::file_time_type::clock::now() - kGrace;
  for (const Entry& entry : entries) {
    if (all <= bytes_max_) break;
    if (entry.written > young || named.contains(entry.path.filename().string())) continue;
    std::error_code error;
    if (fs::remove(entry.path, error) && !error) all -= entry.bytes;
  }
  if (all <= bytes_max_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the artifacts that snapshots name, in ", path_, ", and one of ", bytes,
                   " bytes have more than --artifact-bytes allows, which is ", bytes_max_));
}

absl::StatusOr<std::string> ArtifactFolder::Put(absl::string_view text) {
  if (use_ == Use::kRead) {
    return absl::FailedPreconditionError(
        absl::StrCat("the artifacts in ", path_, " are only read here"));
  }
  if (text.size() > kArtifactBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an artifact of ", text.size(), " bytes is too large to be kept"));
  }
  const std::string digest = DigestOf(text);
  const std::string path = FileOf(digest);
  MutexLock lock(mutex_);
  std::error_code error;
  if (fs::file_size(path, error) == text.size() && !error) {
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // named anew
    return digest;
  }
  RETURN_IF_ERROR(MakeRoom(static_cast<int64_t>(text.size())));
  RETURN_IF_ERROR(WriteWhole(path, text, kFileMode));
  return digest;
}

int64_t ArtifactFolder::BytesOf(const std::vector<std::string>& digests) const {
  int64_t bytes = 0;
  for (const std::string& digest : digests) {
    std::error_code error;
    const std::uintmax_t own = fs::file_size(FileOf(digest), error);
    if (!error) bytes += static_cast<int64_t>(own);
  }
  return bytes;
}

absl::StatusOr<ArtifactFolder::Piece> ArtifactFolder::Read(const std::string& digest,
                                                           uint64_t offset, size_t most) const {
  if (!IsDigest(digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", digest.substr(0, 100), "' is no artifact: give sha256:<64 hex digits>"));
  }
  const std::string path = FileOf(digest);
  const std::optional<std::string> bytes =
      offset == 0 ? ReadPiece(path, kArtifactBytesMax) : ReadPiece(path, most, offset);
  if (bytes && offset == 0 && DigestOf(*bytes) != digest) {
    (void)unlink(path.c_str());
    return absl::NotFoundError(
        absl::StrCat("artifact ", digest, " was damaged; sweep its kernel again"));
  }
  if (!bytes) return absl::NotFoundError(absl::StrCat("artifact ", digest, " is not kept here"));
  std::error_code error;
  return Piece{.bytes = bytes->substr(0, most), .whole_bytes = fs::file_size(path, error)};
}

}  // namespace tune::server
