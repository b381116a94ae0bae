// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/vault.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/state/paths.h"
#include "server/state/whole_file.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;
using VaultJson = nlohmann::json;

constexpr char kEntrySuffix[] = ".entry";
constexpr mode_t kEntryMode = 0600;
constexpr size_t kTunerBytesMax = 32;
constexpr size_t kKeyBytesMax = 512;
constexpr size_t kValueBytesMax = size_t{64} << 10;
constexpr size_t kEntriesMax = 10000;
constexpr size_t kVaultBytesMax = size_t{8} << 20;
constexpr size_t kEntryFileBytesMax = 8 * kValueBytesMax;  // each byte may be escaped

size_t BytesOf(const VaultEntry& entry) {
  return entry.tuner.size() + entry.key.size() + entry.value.size();
}

absl::Status CheckName(const std::string& tuner, const std::string& key) {
  const auto is_plain = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; };
  const bool tuner_is_name = !tuner.empty() && tuner.size() <= kTunerBytesMax &&
                             absl::ascii_isalpha(tuner.front()) &&
                             std::all_of(tuner.begin(), tuner.end(), is_plain);
  if (!tuner_is_name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", tuner.substr(0, kTunerBytesMax), "' is no name of a tuner: give a letter, ",
        "then letters, digits, _ and -, at most ", kTunerBytesMax));
  }
  const bool key_is_name = !key.empty() && key.size() <= kKeyBytesMax &&
                           std::none_of(key.begin(), key.end(), absl::ascii_iscntrl);
  if (key_is_name) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a key has 1 to ", kKeyBytesMax,
                                                 " bytes and no control characters, not ",
                                                 key.size(), " bytes; hash a longer one"));
}

absl::Status CheckEntry(const VaultEntry& entry) {
  RETURN_IF_ERROR(CheckName(entry.tuner, entry.key));
  if (entry.value.size() > kValueBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the value has ", entry.value.size(),
                                                   " bytes; the vault takes ", kValueBytesMax));
  }
  if (VaultJson::accept(entry.value)) return absl::OkStatus();
  return absl::InvalidArgumentError("the value is no JSON, and the vault takes nothing else");
}

std::string EntryText(const VaultEntry& entry) {
  const VaultJson json = {{"tuner", entry.tuner},
                          {"key", entry.key},
                          {"value", entry.value},
                          {"owner", entry.owner},
                          {"stored_unix_ms", entry.stored_unix_ms}};
  return json.dump();
}

std::optional<VaultEntry> ParseEntry(const std::string& text) {
  const VaultJson json = VaultJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  VaultEntry entry;
  for (const auto& [name, field] :
       {std::pair("tuner", &entry.tuner), std::pair("key", &entry.key),
        std::pair("value", &entry.value), std::pair("owner", &entry.owner)}) {
    const auto member = json.find(name);
    if (member == json.end() || !member->is_string()) return std::nullopt;
    *field = member->get<std::string>();
  }
  const auto stored = json.find("stored_unix_ms");
  if (stored == json.end() || !stored->is_number_integer()) return std::nullopt;
  entry.stored_unix_ms = stored->get<int64_t>();
  if (!CheckEntry(entry).ok()) return std::nullopt;
  return entry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Vault>> Vault::Open(const std::string& path, Use use) {
  std::unique_ptr<Vault> vault(new Vault(path, use));
  if (use == Use::kWrite) RETURN_IF_ERROR(MakePrivateDir(path));
  vault->Load();
  return vault;
}

std::string Vault::FileOf(const Name& name) const {
  const std::string digest = DigestOf(absl::StrCat(name.first, "/", name.second));
  return absl::StrCat(path_, "/", FileNameOf(digest, kEntrySuffix));
}

void Vault::Load() {
  MutexLock lock(mutex_);
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != kEntrySuffix || entries_.size() >= kEntriesMax) continue;
    const auto text = ReadPiece(it->path().string(), kEntryFileBytesMax);
    std::optional<VaultEntry> entry = text ? ParseEntry(*text) : std::nullopt;
    if (!entry) continue;
    const Name name(entry->tuner, entry->key);
    entries_[name] = *std::move(entry);
  }
}

absl::StatusOr<VaultEntry> Vault::Find(const std::string& tuner, const std::string& key) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find({tuner, key});
  if (found != entries_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("the vault has no entry '", key.substr(0, kKeyBytesMax),
                                          "' of ", tuner.substr(0, kTunerBytesMax),
                                          "; `tunectl vault list` shows what it has"));
}

std::vector<VaultEntry> Vault::List(const std::string& tuner, size_t limit) const {
  std::vector<VaultEntry> listed = All();
  if (!tuner.empty()) {
    std::erase_if(listed, [&](const VaultEntry& entry) { return entry.tuner != tuner; });
  }
  std::stable_sort(listed.begin(), listed.end(), [](const VaultEntry& a, const VaultEntry& b) {
    return a.stored_unix_ms > b.stored_unix_ms;
  });
  listed.resize(std::min(listed.size(), limit));
  return listed;
}

std::vector<VaultEntry> Vault::All() const {
  MutexLock lock(mutex_);
  std::vector<VaultEntry> all;
  for (const auto& [name, entry] : entries_) all.push_back(entry);
  return all;
}

absl::Status Vault::CheckWritable() const {
  if (use_ == Use::kWrite) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the vault in ", path_, " is only read here"));
}

absl::Status Vault::CheckRoom(const VaultEntry& entry, bool is_operator) const {
  MutexLock lock(mutex_);
  size_t all = BytesOf(entry);
  size_t own = all;
  size_t count = 1;
  for (const auto& [name, other] : entries_) {
    if (name == Name(entry.tuner, entry.key)) continue;
    ++count;
    all += BytesOf(other);
    if (other.owner == entry.owner) own += BytesOf(other);
  }
  const char* const instead = "an operator removes entries by `tunectl vault remove`";
  if (count > kEntriesMax || all > kVaultBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the vault has room for ", kEntriesMax,
                                                     " entries of ", kVaultBytesMax >> 20,
                                                     " MiB in all; ", instead));
  }
  if (is_operator || own <= kVaultBytesMax / 4) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the entries of ", entry.owner, " would have more than ",
                   kVaultBytesMax / 4 >> 20, " MiB, a submitter's part of the vault; ", instead));
}

absl::StatusOr<bool> Vault::Put(const VaultEntry& entry, bool is_operator) {
  RETURN_IF_ERROR(CheckWritable());
  RETURN_IF_ERROR(CheckEntry(entry));
  MutexLock writing(writing_);
  const absl::StatusOr<VaultEntry> there = Find(entry.tuner, entry.key);
  if (there.ok() && there->value == entry.value) return false;
  if (there.ok() && there->owner != entry.owner && !is_operator) {
    return absl::PermissionDeniedError(absl::StrCat("the entry belongs to ", there->owner,
                                                    ", who may replace it, as operators may"));
  }
  RETURN_IF_ERROR(CheckRoom(entry, is_operator));
  const Name name(entry.tuner, entry.key);
  RETURN_IF_ERROR(WriteWhole(FileOf(name), EntryText(entry), kEntryMode));
  MutexLock lock(mutex_);
  entries_[name] = entry;
  return true;
}

absl::StatusOr<VaultEntry> Vault::Remove(const std::string& tuner, const std::string& key) {
  RETURN_IF_ERROR(CheckWritable());
  MutexLock writing(writing_);
  ASSIGN_OR_RETURN(VaultEntry entry, Find(tuner, key));
  const Name name(tuner, key);
  if (unlink(FileOf(name).c_str()) != 0 && errno != ENOENT) {
    return absl::UnavailableError(absl::StrCat("cannot remove ", FileOf(name)));
  }
  MutexLock lock(mutex_);
  entries_.erase(name);
  return entry;
}

}  // namespace tune::server
