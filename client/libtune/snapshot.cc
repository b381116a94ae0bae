// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/snapshot.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "tuner/kernel/kernel.h"

namespace tune::library {
namespace {

using lookup::Evidence;
using lookup::SnapshotRecord;

// Enough for a launch on every GPU, where nobody tells what there is.
constexpr int64_t kUnknownSmCount = 100;
constexpr int64_t kUnknownSharedBytes = 49152;  // what every architecture can give

Json ParseJson(absl::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

// Leaves out lines that are no records. If a line is no JSON, the kernel has no records.
std::vector<SnapshotRecord> ReadRecords(const std::vector<absl::string_view>& lines) {
  std::vector<SnapshotRecord> records;
  records.reserve(lines.size());
  for (const absl::string_view line : lines) {
    absl::StatusOr<SnapshotRecord> record = lookup::ReadRecordLine(line);
    if (absl::IsDataLoss(record.status())) return {};
    if (record.ok()) records.push_back(*std::move(record));
  }
  return records;
}

// Leaves out lines that are no grids. If a line is no JSON, the kernel has no grids.
std::vector<Grid> ReadGrids(const std::vector<absl::string_view>& lines) {
  std::vector<Grid> grids;
  for (const absl::string_view line : lines) {
    const Json json = ParseJson(line);
    if (json.is_discarded()) return {};
    absl::StatusOr<Grid> grid = lookup::ReadGrid(json);
    if (grid.ok()) grids.push_back(*std::move(grid));
  }
  return grids;
}

// Reads the kernel of a name, of which a file has one.
std::optional<SnapshotKernel> ReadRules(const std::vector<absl::string_view>& lines) {
  std::optional<SnapshotKernel> rules;
  for (const absl::string_view line : lines) {
    absl::StatusOr<SnapshotKernel> read = ReadKernel(ParseJson(line));
    if (!read.ok()) return std::nullopt;
    rules = *std::move(read);
  }
  return rules;
}

void See(const std::string& device, const lookup::SeenDevice& one, lookup::SeenDevices& devices) {
  const auto [seen, is_new] = devices.emplace(device, one);
  if (!is_new && one.newest_record_id > seen->second.newest_record_id) seen->second = one;
}

}  // namespace

std::string DigestOf(absl::string_view data) { return absl::StrCat("sha256:", Sha256Hex(data)); }

bool IsDigest(absl::string_view text) {
  return absl::ConsumePrefix(&text, "sha256:") && text.size() == 64 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::Parse(std::string data,
                                                                const std::string& wanted_digest) {
  std::shared_ptr<Snapshot> snapshot(new Snapshot());
  snapshot->digest_ = DigestOf(data);
  if (!wanted_digest.empty() && snapshot->digest_ != wanted_digest) {
    return Damaged(absl::StrCat("its bytes are ", snapshot->digest_, ", not ", wanted_digest));
  }
  std::optional<lookup::SnapshotLines> split;
  if (!wanted_digest.empty()) split = lookup::SplitSnapshot(data);
  const Json json = ParseJson(split.has_value() ? split->head : data);
  if (json.is_discarded()) return Damaged("it is no JSON");
  RETURN_IF_ERROR(snapshot->ReadHead(json));
  if (split.has_value()) {
    snapshot->TakeLines(std::move(split->by_kernel));
    snapshot->files_.push_back(std::move(data));
  } else {
    RETURN_IF_ERROR(snapshot->ReadWhole(json));
  }
  return snapshot;
}

absl::StatusOr<std::shared_ptr<const Snapshot>> Snapshot::ParseAll(
    std::vector<std::string> files, const std::string& wanted_digest) {
  std::shared_ptr<Snapshot> snapshot(new Snapshot());
  snapshot->digest_ = DigestOf(absl::StrJoin(files, ""));
  if (!wanted_digest.empty() && snapshot->digest_ != wanted_digest) {
    return Damaged(absl::StrCat("its bytes are ", snapshot->digest_, ", not ", wanted_digest));
  }
  snapshot->files_ = std::move(files);
  lookup::LinesByKernel all;
  for (const std::string& file : snapshot->files_) {
    std::optional<lookup::SnapshotLines> split = lookup::SplitSnapshot(file);
    if (!split.has_value()) return Damaged("it is no snapshot as a daemon writes it");
    RETURN_IF_ERROR(snapshot->ReadHead(ParseJson(split->head)));
    lookup::AddLines(std::move(split->by_kernel), all);
  }
  snapshot->TakeLines(std::move(all));
  return snapshot;
}

absl::Status Snapshot::ReadHead(const Json& json) {
  ASSIGN_OR_RETURN(number_, ReadHeader(json));
  const auto targets = json.find("targets");
  if (targets == json.end() || !targets->is_object()) {
    return Damaged("the snapshot has no usable 'targets'");
  }
  for (const auto& [name, traits] : targets->items()) {
    ASSIGN_OR_RETURN(targets_[name], ReadTarget(name, traits));
  }
  if (const auto vault = json.find("vault"); vault != json.end()) ReadVault(*vault);
  return absl::OkStatus();
}

// Leaves out what are no entries.
void Snapshot::ReadVault(const Json& json) {
  const auto text = [](const Json& entry, const char* name) -> std::string {
    const auto member = entry.find(name);
    return member != entry.end() && member->is_string() ? member->get<std::string>() : "";
  };
  for (const Json& entry : json) {
    if (!entry.is_object()) continue;
    const auto stored = entry.find("stored_unix_ms");
    const bool has_time = stored != entry.end() && stored->is_number_integer();
    VaultEntry one = {.key = text(entry, "key"),
                      .value = text(entry, "value"),
                      .stored_unix_ms = has_time ? stored->get<int64_t>() : 0};
    if (!one.key.empty()) vault_[text(entry, "tuner")].push_back(std::move(one));
  }
  for (auto& [tuner, entries] : vault_) {
    std::stable_sort(entries.begin(), entries.end(), [](const VaultEntry& a, const VaultEntry& b) {
      return a.stored_unix_ms > b.stored_unix_ms;
    });
  }
}

const std::vector<VaultEntry>& Snapshot::VaultOf(const std::string& tuner) const {
  static const std::vector<VaultEntry> kNone;
  const auto found = vault_.find(tuner);
  return found == vault_.end() ? kNone : found->second;
}

void Snapshot::TakeLines(lookup::LinesByKernel by_kernel) {
  for (auto& [name, lines] : by_kernel) {
    if (!lines.kernels.empty()) kernel_names_.push_back(name);
    kernels_[name].lines = std::move(lines);
  }
}

absl::Status Snapshot::ReadWhole(const Json& json) {
  for (const char* list : {"kernels", "records"}) {
    if (!json.contains(list) || !json[list].is_array()) {
      return Damaged(absl::StrCat("the snapshot has no usable '", list, "'"));
    }
  }
  for (const Json& one : json["kernels"]) {
    ASSIGN_OR_RETURN(const SnapshotKernel kernel, ReadKernel(one));
    if (std::count(kernel_names_.begin(), kernel_names_.end(), kernel.spec.name) > 0) {
      return Damaged(absl::StrCat("kernel '", kernel.spec.name, "' is there twice"));
    }
    kernel_names_.push_back(kernel.spec.name);
    kernels_[kernel.spec.name].rules.Get([&] { return kernel; });
  }
  std::sort(kernel_names_.begin(), kernel_names_.end());
  std::map<std::string, std::vector<SnapshotRecord>> records;
  for (const Json& one : json["records"]) {
    ASSIGN_OR_RETURN(SnapshotRecord record, lookup::ReadRecord(one));
    const std::string kernel = record.row.kernel_name;
    records[kernel].push_back(std::move(record));
  }
  for (auto& [kernel, of_kernel] : records) {
    kernels_[kernel].records.Get([this, &kernel = kernel, &of_kernel = of_kernel] {
      return IndexedRecords(kernel, std::move(of_kernel));
    });
  }
  std::map<std::string, std::vector<Grid>> grids;
  const Json none;
  const auto list = json.find("grids");
  for (const Json& one : list == json.end() ? none : *list) {
    if (!one.is_object()) continue;
    absl::StatusOr<Grid> grid = lookup::ReadGrid(one);
    if (grid.ok()) grids[lookup::KernelOfGrid(one)].push_back(*std::move(grid));
  }
  for (auto& [kernel, of_kernel] : grids) {
    kernels_[kernel].grids.Get([&of_kernel = of_kernel] { return std::move(of_kernel); });
  }
  return absl::OkStatus();
}

Snapshot::Records Snapshot::IndexedRecords(const std::string& kernel,
                                           std::vector<SnapshotRecord> records) const {
  Records indexed;
  std::vector<lookup::Record> rows;
  rows.reserve(records.size());
  for (SnapshotRecord& record : records) {
    const TrialKey& key = record.row.key;
    See(key.device_name, {key.target, record.row.id}, indexed.devices);
    if (!record.dtype_is_known) continue;
    record.row.trial.id = static_cast<int64_t>(indexed.evidence.size());
    indexed.evidence.push_back(std::move(record.evidence));
    rows.push_back(std::move(record.row));
  }
  std::vector<lookup::KernelPolicy> policies;
  if (const SnapshotKernel* rules = FindKernel(kernel)) policies.push_back(rules->Policy());
  indexed.index = lookup::Index::Build(std::move(rows), policies);
  return indexed;
}

const Snapshot::OfKernel& Snapshot::Of(const std::string& kernel) const {
  const auto found = kernels_.find(kernel);
  return found == kernels_.end() ? nothing_ : found->second;
}

const SnapshotKernel* Snapshot::FindKernel(const std::string& name) const {
  const OfKernel& kernel = Of(name);
  const auto& rules = kernel.rules.Get([&] { return ReadRules(kernel.lines.kernels); });
  return rules.has_value() ? &*rules : nullptr;
}

const lookup::SeenDevices& Snapshot::devices() const {
  return devices_.Get([&] {
    lookup::SeenDevices devices;
    for (const auto& [name, kernel] : kernels_) {
      for (const auto& [device, seen] : RecordsOf(name).devices) See(device, seen, devices);
    }
    return devices;
  });
}

const std::vector<Grid>& Snapshot::GridsOf(const std::string& kernel) const {
  const OfKernel& of = Of(kernel);
  return of.grids.Get([&] { return ReadGrids(of.lines.grids); });
}

const Snapshot::Records& Snapshot::RecordsOf(const std::string& kernel) const {
  const OfKernel& of = Of(kernel);
  return of.records.Get([&] { return IndexedRecords(kernel, ReadRecords(of.lines.records)); });
}

const lookup::Index& Snapshot::IndexOf(const std::string& kernel) const {
  return *RecordsOf(kernel).index;
}

const Evidence& Snapshot::EvidenceOf(const lookup::Record& record) const {
  return RecordsOf(record.kernel_name).evidence[static_cast<size_t>(record.trial.id)];
}

TargetTraits Snapshot::TargetNamed(const std::string& name) const {
  const auto found = targets_.find(name);
  if (found != targets_.end()) return found->second;
  const absl::StatusOr<TargetTraits> traits = TargetTraitsFor(name);
  return {.target = name,
          .sm = traits.ok() ? traits->sm : 0,
          .max_shared_bytes = kUnknownSharedBytes,
          .sm_count = kUnknownSmCount};
}

}  // namespace tune::library
