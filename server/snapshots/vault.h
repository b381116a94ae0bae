// SPDX-License-Identifier: Apache-2.0
// The vault: winners of other tuners, each under a key of that tuner's own, as JSON that the daemon
// does not interpret (proto/tune/v1/vault.proto). Each entry is a file of the vault's folder; all
// of them are in memory, so that reading never waits for the disk, and in every snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace tune::server {

struct VaultEntry {
  std::string tuner;
  std::string key;
  std::string value;  // JSON
  std::string owner;  // the principal that stored it
  int64_t stored_unix_ms = 0;
};

// Thread-safe.
class Vault {
 public:
  enum class Use { kWrite, kRead };

  // Opens the folder and reads all entries; files that are none are left alone. A writer makes the
  // folder; for a reader it may be absent.
  static absl::StatusOr<std::unique_ptr<Vault>> Open(const std::string& path, Use use);

  // NOT_FOUND.
  absl::StatusOr<VaultEntry> Find(const std::string& tuner, const std::string& key) const;
  // The newest entries of a tuner; of all tuners if it is empty.
  std::vector<VaultEntry> List(const std::string& tuner, size_t limit) const;
  // All entries by tuner and key.
  std::vector<VaultEntry> All() const;

  // Stores an entry; durable when it returns. Returns false if it was there with this value. An
  // operator may replace everybody's, others their own: PERMISSION_DENIED. INVALID_ARGUMENT: a
  // malformed name, or no JSON. RESOURCE_EXHAUSTED: a limit of the vault, or of a principal that is
  // no operator.
  absl::StatusOr<bool> Put(const VaultEntry& entry, bool is_operator);
  // Returns the entry that was removed. NOT_FOUND.
  absl::StatusOr<VaultEntry> Remove(const std::string& tuner, const std::string& key);

 private:
  using Name = std::pair<std::string, std::string>;  // tuner and key

  Vault(std::string path, Use use) : path_(std::move(path)), use_(use) {}
  std::string FileOf(const Name& name) const;
  void Load();
  absl::Status CheckWritable() const;
  // Checks that there is room for an entry in the place of the one of its name.
  absl::Status CheckRoom(const VaultEntry& entry, bool is_operator) const;

  const std::string path_;
  const Use use_;
  Mutex writing_;        // one writer at a time; taken before mutex_
  mutable Mutex mutex_;  // never held while the disk works
  std::map<Name, VaultEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tune::server
