// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/sources.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/libtune/background.h"
#include "client/libtune/daemon.h"
#include "client/libtune/node_folder.h"
#include "lookup/shipped_files.h"

namespace tune::library {
namespace {

namespace fs = std::filesystem;
using SnapshotPtr = std::shared_ptr<const Snapshot>;

// Limits of a node's cache for files older than a day.
constexpr size_t kSnapshotsMax = 16;
constexpr size_t kArtifactsMax = 256;
constexpr size_t kDigestFileBytesMax = 128;
constexpr size_t kHeaderBytesMax = 4096;
constexpr size_t kNumberDigitsMax = 18;
constexpr size_t kNamedMax = 20;  // snapshots, where one is not there
constexpr size_t kArtifactBytesMax = size_t{64} << 20;

std::string Under(const std::string& folder, const char* name) {
  return folder.empty() ? "" : absl::StrCat(folder, "/", name);
}

// The daemon's, by its own rule; empty: none.
std::string StateFolder(const Environment& environment) {
  const std::string folder = environment.Variable("TUNE_STATE_DIR");
  if (!folder.empty()) return folder;
  const std::string state = environment.Variable("XDG_STATE_HOME");
  if (!state.empty()) return Under(state, "tunectl");
  if (geteuid() == 0) return "/var/lib/tunectl";
  return Under(environment.Variable("HOME"), ".local/state/tunectl");
}

std::string SnapshotFolder(const Environment& environment) {
  const std::string folder = environment.Variable("TUNE_SNAPSHOT_DIR");
  return folder.empty() ? Under(StateFolder(environment), "snapshots") : folder;
}

// The cache of this node and user; empty if there is none.
std::string CacheFolder(const Environment& environment) {
  const std::string folder = environment.Variable("TUNE_CACHE_DIR");
  if (!folder.empty()) return folder;
  const std::string cache = environment.Variable("XDG_CACHE_HOME");
  if (!cache.empty()) return Under(cache, "tunectl");
  return Under(environment.Variable("HOME"), ".cache/tunectl");
}

std::string FileName(const std::string& digest, const char* suffix) {
  return absl::StrCat(absl::StrReplaceAll(digest, {{":", "-"}}), suffix);
}

// Does the daemon at an address write this host's snapshot folder? Not one of another host, nor,
// unless its folder is named, one of another address than the host's.
bool FolderIsOf(const Daemon& daemon) {
  const std::string& address = daemon.address;
  const Environment& environment = *daemon.environment;
  if (SocketPath(address).empty()) return false;
  const auto is_set = [&](const char* name) { return !environment.Variable(name).empty(); };
  if (is_set("TUNE_SNAPSHOT_DIR") || is_set("TUNE_STATE_DIR")) return true;
  return !is_set("TUNE_ADDRESS") && address == environment.default_address();
}

absl::StatusOr<SnapshotPtr> Load(const std::string& path, const std::string& digest) {
  ASSIGN_OR_RETURN(std::string data, ReadRegularFile(path, kSnapshotBytesMax));
  absl::StatusOr<SnapshotPtr> snapshot = Snapshot::Parse(std::move(data), digest);
  if (snapshot.ok()) return snapshot;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", snapshot.status().message()));
}

// The digest of the newest that the host's daemon wrote.
absl::StatusOr<std::string> LatestIn(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadRegularFile(Under(folder, "latest"), kDigestFileBytesMax));
  const absl::string_view digest = absl::StripAsciiWhitespace(text);
  if (IsDigest(digest)) return std::string(digest);
  return absl::InvalidArgumentError(absl::StrCat(folder, "/latest names no snapshot"));
}

absl::StatusOr<SnapshotPtr> FromFolder(const std::string& folder, std::string digest) {
  if (digest.empty()) {
    ASSIGN_OR_RETURN(digest, LatestIn(folder));
  }
  return Load(absl::StrCat(folder, "/", FileName(digest, ".json")), digest);
}

// The snapshots of one daemon that processes of this node have fetched.
class NodeCache {
 public:
  explicit NodeCache(const Daemon& daemon)
      : folder_(Under(CacheFolder(*daemon.environment), "snapshots"), kSnapshotsMax),
        latest_(absl::StrCat("latest-", Sha256Hex(daemon.address).substr(0, 16))) {}

  absl::StatusOr<SnapshotPtr> Load(std::string digest, double age_max) const {
    if (digest.empty()) {
      const absl::StatusOr<std::string> text = folder_.Read(latest_, kDigestFileBytesMax);
      digest = text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
      if (!IsDigest(digest)) return absl::NotFoundError("the node's cache has nothing");
      if (folder_.Age(latest_) > age_max) {
        return absl::NotFoundError("the node's cache has nothing that is new");
      }
    }
    ASSIGN_OR_RETURN(std::string data, folder_.Read(FileName(digest, ".json"), kSnapshotBytesMax));
    return Snapshot::Parse(std::move(data), digest);
  }

  void Keep(const std::string& digest, const std::string& data, bool newest) const {
    if (folder_.Keep(FileName(digest, ".json"), data) && newest) {
      folder_.Keep(latest_, absl::StrCat(digest, "\n"));
    }
  }

 private:
  const NodeFolder folder_;
  const std::string latest_;  // names the file that says which one is the newest
};

absl::StatusOr<SnapshotPtr> FromDaemon(const Wish& wish, const Daemon& daemon,
                                       const NodeCache& cache) {
  ASSIGN_OR_RETURN(const std::string data,
                   Fetch({.what = "snapshot",
                          .digest = wish.digest,
                          .address = daemon.address,
                          .environment = *daemon.environment,
                          .deadline = std::chrono::steady_clock::now() + daemon.timeout,
                          .bytes_max = kSnapshotBytesMax,
                          .end_fd = daemon.end_fd}));
  ASSIGN_OR_RETURN(SnapshotPtr snapshot, Snapshot::Parse(data, wish.digest));
  cache.Keep(snapshot->digest(), data, wish.digest.empty());
  return snapshot;
}

// The last source: a snapshot.json of a folder, else the records that ship.
struct Bundle {
  std::string folder;
  std::string records;

  explicit Bundle(const std::string& named) : folder(named), records(named) {
    if (!named.empty()) return;
    const std::string library = LibraryFolder();
    if (!library.empty()) folder = absl::StrCat(library, "/../share/tunectl");
    const char* const chosen = std::getenv("TUNE_RECORDS_DIR");
    const bool is_chosen = chosen != nullptr && *chosen != '\0';
    records = is_chosen ? std::string(chosen) : absl::StrCat(folder, "/records");
  }
};

absl::StatusOr<SnapshotPtr> Bundled(const Wish& wish, const Bundle& bundle) {
  const std::string own = absl::StrCat(bundle.folder, "/snapshot.json");
  if (access(own.c_str(), F_OK) == 0) return Load(own, wish.digest);
  ASSIGN_OR_RETURN(const std::vector<lookup::ShippedFile> files,
                   lookup::ReadShippedFiles(bundle.records, lookup::kRecordsFile));
  if (files.empty())
    return absl::NotFoundError(absl::StrCat("no records ship in ", bundle.records));
  std::vector<std::string> texts;
  for (const lookup::ShippedFile& file : files) {
    ASSIGN_OR_RETURN(std::string text, file.Text());
    texts.push_back(std::move(text));
  }
  absl::StatusOr<SnapshotPtr> snapshot = Snapshot::ParseAll(std::move(texts), wish.digest);
  if (snapshot.ok()) return snapshot;
  return absl::InvalidArgumentError(
      absl::StrCat(bundle.records, ": ", snapshot.status().message()));
}

struct Try {
  const char* source;
  std::function<absl::StatusOr<SnapshotPtr>()> load;
  std::string folder;  // that the file lies in
};

// The number of one of the host's snapshots, where a file is named that is none.
std::optional<int64_t> NumberOf(const std::string& path) {
  int64_t number = 0;
  const bool digits = !path.empty() && std::all_of(path.begin(), path.end(), absl::ascii_isdigit);
  const bool fits = digits && path.size() <= kNumberDigitsMax;
  if (!fits || !absl::SimpleAtoi(path, &number)) return std::nullopt;
  if (access(path.c_str(), F_OK) == 0) return std::nullopt;
  return number;
}

// The digests of the host's snapshots, by their numbers, the highest first.
std::map<int64_t, std::vector<std::string>, std::greater<>> NumbersIn(const std::string& folder) {
  std::map<int64_t, std::vector<std::string>, std::greater<>> numbers;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string digest =
        absl::StrReplaceAll(file->path().stem().string(), {{"sha256-", "sha256:"}});
    if (!IsDigest(digest) || file->path().extension() != ".json") continue;
    std::error_code gone;
    if (!file->is_regular_file(gone)) continue;
    std::string header(kHeaderBytesMax, '\0');
    std::ifstream(file->path(), std::ios::binary).getline(header.data(), kHeaderBytesMax);
    header.resize(std::strlen(header.c_str()));
    absl::string_view fields = absl::StripTrailingAsciiWhitespace(header);
    absl::ConsumeSuffix(&fields, ",");
    const Json json = Json::parse(absl::StrCat(fields, "}"), nullptr, /*allow_exceptions=*/false);
    const auto number = json.is_object() ? json.find("number") : json.end();
    if (number == json.end() || !number->is_number_integer()) continue;
    numbers[number->get<int64_t>()].push_back(digest);
  }
  return numbers;
}

absl::StatusOr<SnapshotPtr> Numbered(const std::string& folder, int64_t number) {
  const auto numbers = NumbersIn(folder);
  if (const auto found = numbers.find(number); found != numbers.end()) {
    if (found->second.size() == 1) return FromFolder(folder, found->second.front());
    return absl::InvalidArgumentError(absl::StrCat(found->second.size(), " snapshots in ", folder,
                                                   " have the number ", number,
                                                   "; name one by its digest"));
  }
  std::vector<int64_t> there;
  for (const auto& [one, digests] : numbers) {
    if (there.size() < kNamedMax) there.push_back(one);
  }
  return absl::NotFoundError(
      absl::StrCat("snapshot ", number, " is not there: ", folder.empty() ? "no folder" : folder,
                   " has ", there.empty() ? "none" : absl::StrJoin(there, ", "),
                   "; a digest (sha256:...) or a file's path names one, too"));
}

std::vector<Try> TriesFor(const Wish& wish, const Daemon& daemon, const NodeCache& cache) {
  if (const std::optional<int64_t> number = NumberOf(wish.path); number.has_value()) {
    const std::string folder = SnapshotFolder(*daemon.environment);
    return {{"file", [folder, number] { return Numbered(folder, *number); }, folder}};
  }
  if (!wish.path.empty()) {
    std::error_code error;
    const fs::path absolute = fs::absolute(wish.path, error);
    return {{"file", [&] { return Load(wish.path, ""); }, absolute.parent_path()}};
  }
  std::vector<Try> tries;
  const std::string folder = SnapshotFolder(*daemon.environment);
  if (!folder.empty() && (!wish.digest.empty() || FolderIsOf(daemon))) {
    tries.push_back({"file", [&, folder] { return FromFolder(folder, wish.digest); }, folder});
  }
  tries.push_back({"cache", [&] { return cache.Load(wish.digest, wish.fresh_seconds); }, ""});
  if (daemon.timeout.count() > 0) {
    tries.push_back({"daemon", [&] { return FromDaemon(wish, daemon, cache); }, ""});
  }
  if (wish.digest.empty()) {
    const double any_age = std::numeric_limits<double>::infinity();
    tries.push_back({"cache", [&, any_age] { return cache.Load("", any_age); }, ""});
  }
  Bundle bundle(daemon.bundle);
  tries.push_back({kBundled, [&, bundle] { return Bundled(wish, bundle); }, bundle.folder});
  return tries;
}

// The digits alone, as a person copies them. Decimal ones are a snapshot's number.
bool IsStartOfDigest(const std::string& text) {
  return text.size() >= 6 && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos &&
         text.find_first_not_of("0123456789") != std::string::npos;
}

// Whether it may name a file or a snapshot's number, unlike "newest", "12a" or "latest ".
bool IsPathOrNumber(const std::string& text) {
  std::error_code ignored;
  return text.find_first_not_of("0123456789") == std::string::npos ||
         text.find_first_of("./") != std::string::npos || fs::exists(text, ignored);
}

}  // namespace

absl::StatusOr<Wish> Wish::Parse(const std::string& text) {
  if (text.empty() || text == "latest") return Wish{};
  if (IsDigest(text)) return Wish{.digest = text};
  std::error_code ignored;
  if (absl::StartsWith(text, "sha256:") || (IsStartOfDigest(text) && !fs::exists(text, ignored))) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is no digest: sha256: and 64 hex digits in lower case, as "
                     "`tunectl snapshot list` prints them; the start of one could be another "
                     "snapshot's on another node"));
  }
  if (!IsPathOrNumber(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text,
        "' names no snapshot: it is neither a file, a number, a digest (sha256:...) nor "
        "\"latest\""));
  }
  return Wish{.path = text};
}

std::string DigestInFolder(const Daemon& daemon) {
  const std::string folder = SnapshotFolder(*daemon.environment);
  if (folder.empty() || !FolderIsOf(daemon)) return "";
  return LatestIn(folder).value_or("");
}

Found FindSnapshot(const Wish& wish, const Daemon& daemon) {
  const NodeCache cache(daemon);
  Found found{.source = "none"};
  for (const Try& one : TriesFor(wish, daemon, cache)) {
    if (HasEnded(daemon.end_fd)) break;
    absl::StatusOr<SnapshotPtr> snapshot = one.load();
    if (snapshot.ok()) {
      found.snapshot = *std::move(snapshot);
      found.source = one.source;
      found.folder = one.folder;
      return found;
    }
    std::string note(snapshot.status().message());
    const bool is_told = std::count(found.notes.begin(), found.notes.end(), note) > 0;
    if (!is_told) found.notes.push_back(std::move(note));
  }
  return found;
}

absl::StatusOr<std::string> FindArtifact(const std::string& digest, const std::string& folder,
                                         const Daemon& daemon) {
  if (!IsDigest(digest)) {
    return absl::InvalidArgumentError(absl::StrCat("no artifact is called '", digest, "'"));
  }
  const std::string name = FileName(digest, ".artifact");
  const NodeFolder cache(Under(CacheFolder(*daemon.environment), "artifacts"), kArtifactsMax);
  std::vector<std::function<absl::StatusOr<std::string>()>> tries;
  if (!folder.empty()) {
    tries.push_back([&]() -> absl::StatusOr<std::string> {
      const std::string path = absl::StrCat(folder, "/artifacts/", name);
      RETURN_IF_ERROR(CheckOwner(path, *daemon.environment));
      return ReadRegularFile(path, kArtifactBytesMax);
    });
  }
  tries.push_back([&] { return cache.Read(name, kArtifactBytesMax); });
  if (daemon.timeout.count() > 0) {
    tries.push_back([&]() -> absl::StatusOr<std::string> {
      ASSIGN_OR_RETURN(std::string data,
                       Fetch({.what = "artifact",
                              .digest = digest,
                              .address = daemon.address,
                              .environment = *daemon.environment,
                              .deadline = std::chrono::steady_clock::now() + daemon.timeout,
                              .bytes_max = kArtifactBytesMax}));
      if (DigestOf(data) == digest) cache.Keep(name, data);
      return data;
    });
  }
  std::vector<std::string> notes;
  for (const auto& load : tries) {
    absl::StatusOr<std::string> data = load();
    if (data.ok() && DigestOf(*data) == digest) return data;
    notes.push_back(data.ok() ? absl::StrCat("its bytes are ", DigestOf(*data), ", not ", digest)
                              : std::string(data.status().message()));
  }
  return absl::NotFoundError(absl::StrJoin(notes, "; "));
}

}  // namespace tune::library
