// SPDX-License-Identifier: Apache-2.0
#include "lookup/kernel_index.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lookup/reason.h"

namespace tune::lookup {
namespace {

// In a key: whichever hash, whichever device.
constexpr int64_t kAny = 0;
// In a key: nothing there is called that.
constexpr int64_t kUnknown = -1;
// If the nearest record is refused, this many are asked about before the next kind of match.
constexpr size_t kMaxTried = 16;
// Ranks: the lower the better, and the same after a publish as before it. Cold caches before warm,
// then the newest; the highest number of all is PointTree's for nothing.
constexpr uint32_t kWarmBit = uint32_t{1} << 31;
constexpr uint32_t kOldest = kWarmBit - 2;

using Axes = absl::InlinedVector<double, 6>;

// By name, so that the order in which a spec lists its dims does not matter.
using DimPointers = absl::InlinedVector<const std::pair<std::string, int64_t>*, 8>;

DimPointers SortedDims(const Problem& problem) {
  DimPointers dims;
  for (const auto& dim : problem.dims) dims.push_back(&dim);
  std::sort(dims.begin(), dims.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  return dims;
}

std::string NamesOf(const DimPointers& dims) {
  std::string names = "dims";
  for (const auto* dim : dims) absl::StrAppend(&names, " ", dim->first);
  return names;
}

// Slots of a key that a search fills in.
constexpr size_t kHashSlot = 0;
constexpr size_t kDeviceSlot = 1;

std::string MissingReason(const Query& query,
                          const std::map<std::string, std::set<std::string>>& dtypes_by_target,
                          const std::map<std::string, DimMatch>& dims, size_t refused) {
  const std::string& name = query.kernel_name;
  if (dtypes_by_target.empty()) return absl::StrCat("no record of ", name);
  auto dtypes = dtypes_by_target.find(query.target);
  if (dtypes == dtypes_by_target.end()) {
    auto target_name = [](std::string* out, const auto& entry) { out->append(entry.first); };
    return absl::StrCat("no record of ", name, " for ", query.target, ", only for ",
                        absl::StrJoin(dtypes_by_target, ", ", target_name));
  }
  const std::string dtype = ToText(query.problem.dtype);
  if (dtypes->second.count(dtype) == 0) {
    return absl::StrCat("no record of ", name, " in ", dtype, ", only in ",
                        absl::StrJoin(dtypes->second, ", "));
  }
  if (refused > 0) {
    return absl::StrCat("the configs of the nearest records of ", name,
                        " are not valid for this problem");
  }
  std::vector<std::string> exact;
  for (const auto& [dim, value] : query.problem.dims) {
    auto match = dims.find(dim);
    if (match != dims.end() && match->second == DimMatch::kExact) {
      exact.push_back(absl::StrCat(dim, "=", value));
    }
  }
  return absl::StrCat("no record of ", name, " in ", dtype, " on ", query.device_name,
                      exact.empty() ? "" : " with ", absl::StrJoin(exact, " "),
                      ", nor of this problem on another device");
}

// Equal for records of which the newest counts.
std::string KeyText(const TrialKey& key) {
  return absl::StrCat(key.kernel_hash, "\n", ToText(key.problem), "\n", key.device_name, "\n",
                      key.target, "\n", static_cast<int>(key.cache_mode), "\n", key.include_digest);
}

}  // namespace

// A problem in the index's terms: the key of its tree and its place there.
struct KernelIndex::Located {
  Key key;
  Axes place;
  Axes bucket_low;
  Axes bucket_high;
};

struct KernelIndex::Found {
  Match match = Match::kNone;
  RecordPtr record;
  absl::string_view saved;  // the record as the file has it
  size_t refused = 0;       // records that `accept` did not take
};

// The points of a tree that is to be built.
struct KernelIndex::Points {
  size_t axes = 0;
  std::vector<double> coordinates;
  std::vector<uint32_t> ranks;
};

std::shared_ptr<const KernelIndex> KernelIndex::Build(const KernelPolicy& policy,
                                                      std::vector<RecordPtr> records) {
  std::shared_ptr<KernelIndex> index(new KernelIndex(policy));
  index->records_ = std::move(records);
  for (const RecordPtr& record : index->records_) index->Describe(*record);
  index->AddTrees();
  return index;
}

std::shared_ptr<const KernelIndex> KernelIndex::With(const RecordPtr& record) const {
  std::shared_ptr<KernelIndex> index(new KernelIndex(*this));
  index->records_.push_back(record);
  index->Describe(*record);
  // The first other source or device: now a wildcard needs trees of its own.
  if ((index->AnyHash() == kAny) != (AnyHash() == kAny) ||
      (index->AnyDevice() == kAny) != (AnyDevice() == kAny)) {
    index->AddTrees();
    return index;
  }
  Located located = index->Locate(record->key.problem, record->key.target);
  const uint32_t rank = index->RankOf(index->records_.size() - 1);
  for (const Key& key : index->KeysOf(*record, located)) {
    std::shared_ptr<const PointTree>& tree = index->trees_[key];
    if (tree == nullptr) {
      tree = std::make_shared<PointTree>(located.place.size(), located.place,
                                         std::vector<uint32_t>{rank});
    } else {
      tree = std::make_shared<PointTree>(tree->With(located.place, rank));
    }
  }
  return index;
}

std::shared_ptr<const KernelIndex> KernelIndex::With(const std::vector<RecordPtr>& records) const {
  std::shared_ptr<KernelIndex> index(new KernelIndex(*this));
  for (const RecordPtr& record : records) {
    index->records_.push_back(record);
    index->Describe(*record);
  }
  index->AddTrees();
  return index;
}

std::vector<RecordPtr> KernelIndex::CurrentRecords() const {
  std::vector<RecordPtr> current;
  std::unordered_set<std::string> seen;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    if (seen.insert(KeyText((*record)->key)).second) current.push_back(*record);
  }
  for (size_t position = saved_count(); position > 0; --position) {
    const RecordPtr record = ReadSaved(position - 1);
    if (record != nullptr && !seen.contains(KeyText(record->key))) current.push_back(record);
  }
  return current;
}

size_t KernelIndex::record_count() const { return saved_count() + records_.size(); }

std::string KernelIndex::CodeOf(const TrialKey& key) const {
  if (policy_.include_digest.empty()) return key.kernel_hash;
  return absl::StrCat(key.kernel_hash, " ", key.include_digest);
}

std::string KernelIndex::WantedCode(const std::string& kernel_hash) const {
  if (kernel_hash.empty()) return "";
  return CodeOf({.kernel_hash = kernel_hash, .include_digest = policy_.include_digest});
}

int64_t KernelIndex::Intern(absl::string_view text) {
  // From 1: kAny is 0.
  return ids_.try_emplace(text, static_cast<int64_t>(ids_.size()) + 1).first->second;
}

int64_t KernelIndex::IdOf(absl::string_view text) const {
  auto found = ids_.find(text);
  return found == ids_.end() ? kUnknown : found->second;
}

int64_t KernelIndex::AnyHash() const { return hashes_.size() == 1 ? *hashes_.begin() : kAny; }

int64_t KernelIndex::AnyDevice() const { return devices_.size() == 1 ? *devices_.begin() : kAny; }

void KernelIndex::Describe(const Record& record) {
  hashes_.insert(Intern(CodeOf(record.key)));
  devices_.insert(Intern(record.key.device_name));
  dtypes_by_target_[record.key.target].insert(ToText(record.key.problem.dtype));
  Intern(record.key.target);
  Intern(NamesOf(SortedDims(record.key.problem)));
}

uint32_t KernelIndex::RankOf(size_t position) const {
  const bool warm = records_[position]->key.cache_mode == CacheMode::kWarm;
  return (warm ? kWarmBit : 0) | (kOldest - static_cast<uint32_t>(saved_count() + position));
}

RecordPtr KernelIndex::At(uint32_t rank) const {
  const size_t position = kOldest - (rank & ~kWarmBit);
  if (position < saved_count()) return ReadSaved(position);
  const size_t unsaved = position - saved_count();
  return unsaved < records_.size() ? records_[unsaved] : nullptr;
}

RecordPtr KernelIndex::ReadSaved(size_t position) const {
  absl::StatusOr<Record> record =
      saved_->file->ReadRecord(saved_->places[2 * position], saved_->places[2 * position + 1]);
  if (!record.ok()) return nullptr;
  return std::make_shared<const Record>(*std::move(record));
}

absl::string_view KernelIndex::SavedBytes(uint32_t rank) const {
  const size_t position = kOldest - (rank & ~kWarmBit);
  if (position >= saved_count()) return {};
  return saved_->file->RecordBytes(saved_->places[2 * position], saved_->places[2 * position + 1])
      .value_or(absl::string_view());
}

const PointTree* KernelIndex::SavedTree(Key key, size_t axes) const {
  if (saved_ == nullptr) return nullptr;
  if (key[kHashSlot] == kAny) key[kHashSlot] = saved_->any_hash;
  if (key[kDeviceSlot] == kAny) key[kDeviceSlot] = saved_->any_device;
  const auto tree = saved_->trees.find(key);
  return tree != saved_->trees.end() && tree->second->axes() == axes ? tree->second.get() : nullptr;
}

KernelIndex::Located KernelIndex::Locate(const Problem& problem, const std::string& target) const {
  const DimPointers dims = SortedDims(problem);
  Located located;
  located.key = {kAny, kAny};  // hash and device: the search fills them in
  located.key.push_back(IdOf(target));
  located.key.push_back(static_cast<int64_t>(problem.dtype));
  located.key.push_back(IdOf(NamesOf(dims)));
  for (const auto* dim : dims) {
    auto policy = policy_.dims.find(dim->first);
    const DimMatch match = policy == policy_.dims.end() ? DimMatch::kNearest : policy->second;
    if (match == DimMatch::kIgnored) continue;
    if (match == DimMatch::kExact) {
      located.key.push_back(dim->second);
      continue;
    }
    const Bucket bucket =
        match == DimMatch::kBucketed ? BucketOf(dim->second) : Bucket{dim->second, dim->second};
    located.place.push_back(AxisPosition(dim->second));
    located.bucket_low.push_back(AxisPosition(bucket.low));
    located.bucket_high.push_back(AxisPosition(bucket.high));
  }
  return located;
}

// The keys of all trees that contain the record.
std::vector<KernelIndex::Key> KernelIndex::KeysOf(const Record& record, Located& located) const {
  std::vector<int64_t> hashes = {IdOf(CodeOf(record.key))};
  std::vector<int64_t> devices = {IdOf(record.key.device_name)};
  if (AnyHash() == kAny) hashes.push_back(kAny);
  if (AnyDevice() == kAny) devices.push_back(kAny);
  std::vector<Key> keys;
  for (const int64_t hash : hashes) {
    for (const int64_t device : devices) {
      located.key[kHashSlot] = hash;
      located.key[kDeviceSlot] = device;
      keys.push_back(located.key);
    }
  }
  return keys;
}

void KernelIndex::AddTrees() {
  absl::flat_hash_map<Key, Points> points;
  for (size_t position = 0; position < records_.size(); ++position) {
    const Record& record = *records_[position];
    Located located = Locate(record.key.problem, record.key.target);
    for (const Key& key : KeysOf(record, located)) {
      Points& there = points[key];
      there.axes = located.place.size();
      there.coordinates.insert(there.coordinates.end(), located.place.begin(), located.place.end());
      there.ranks.push_back(RankOf(position));
    }
  }
  trees_.clear();
  trees_.reserve(points.size());
  for (auto& [key, there] : points) {
    trees_[key] =
        std::make_shared<PointTree>(there.axes, there.coordinates, std::move(there.ranks));
  }
}

KernelIndex::Found KernelIndex::SearchTree(Located& located, int64_t hash, int64_t device,
                                           Match last, Accept accept) const {
  Found found;
  located.key[kHashSlot] = hash;
  located.key[kDeviceSlot] = device;
  std::vector<const PointTree*> trees;
  if (const PointTree* saved = SavedTree(located.key, located.place.size())) trees.push_back(saved);
  const auto own = trees_.find(located.key);
  if (own != trees_.end()) trees.push_back(own->second.get());
  if (trees.empty()) return found;
  const double infinity = std::numeric_limits<double>::infinity();
  const Axes lowest(located.place.size(), -infinity);
  const Axes highest(located.place.size(), infinity);
  const struct {
    Match match;
    PointTree::Box box;
  } kinds[] = {
      {Match::kExact, {located.place, located.place}},
      {Match::kBucketed, {located.bucket_low, located.bucket_high}},
      {Match::kNearest, {lowest, highest}},
  };
  std::set<Axes> refused;  // of a place the best record is asked about, and no other
  auto take = [&](Match match, PointTree::Hit hit) {
    const RecordPtr record = At(hit.rank);
    if (record == nullptr) return false;
    if (!accept(*record)) {
      refused.insert(Locate(record->key.problem, record->key.target).place);
      return false;
    }
    const auto place = [&] { return Locate(record->key.problem, record->key.target).place; };
    if (!refused.empty() && refused.contains(place())) return false;
    found.match = match;
    found.record = record;
    found.saved = SavedBytes(hit.rank);
    return true;
  };
  for (const auto& [match, box] : kinds) {
    if (match > last) break;
    PointTree::Hit best;
    for (const PointTree* tree : trees) best = std::min(best, tree->Nearest(located.place, box));
    if (best.rank == PointTree::Hit().rank) continue;  // nothing in the box
    if (take(match, best)) return found;
    std::vector<PointTree::Hit> hits;
    for (const PointTree* tree : trees) {
      const auto of_tree = tree->Nearest(located.place, box, kMaxTried);
      hits.insert(hits.end(), of_tree.begin(), of_tree.end());
    }
    std::sort(hits.begin(), hits.end());
    for (const PointTree::Hit hit : hits) {
      if (hit != best && take(match, hit)) return found;
      ++found.refused;
    }
  }
  return found;
}

KernelIndex::Found KernelIndex::Search(const std::string& wanted_code, const Query& query,
                                       Accept accept) const {
  Located located = Locate(query.problem, query.target);
  const int64_t any_hash = AnyHash();
  const int64_t any_device = AnyDevice();
  const int64_t hash = wanted_code.empty() ? any_hash : IdOf(wanted_code);
  const int64_t device = IdOf(query.device_name);

  Found found = SearchTree(located, hash, device, Match::kNearest, accept);
  size_t refused = found.refused;
  if (found.record == nullptr && any_hash != hash) {
    found = SearchTree(located, any_hash, device, Match::kNearest, accept);
    refused += found.refused;
    // The record of another source, or of other headers, is never better than near.
    if (found.record != nullptr) found.match = Match::kNearest;
  }
  if (found.record != nullptr || any_device == device) {
    found.refused = refused;
    return found;
  }

  auto accept_elsewhere = [&](const Record& record) {
    return record.key.device_name != query.device_name && accept(record);
  };
  found = SearchTree(located, hash, any_device, Match::kBucketed, accept_elsewhere);
  refused += found.refused;
  if (found.record == nullptr && any_hash != hash) {
    found = SearchTree(located, any_hash, any_device, Match::kBucketed, accept_elsewhere);
    refused += found.refused;
  }
  if (found.record != nullptr) found.match = Match::kOtherDevice;
  found.refused = refused;
  return found;
}

Answer KernelIndex::Lookup(const Query& query, Accept accept) const {
  const std::string& wanted_hash =
      query.kernel_hash.empty() ? policy_.kernel_hash : query.kernel_hash;
  const Found found = Search(WantedCode(wanted_hash), query, accept);
  Answer answer{.match = found.match, .record = found.record};
  if (found.record == nullptr) {
    answer.reason = MissingReason(query, dtypes_by_target_, policy_.dims, found.refused);
    return answer;
  }
  answer.config = &answer.record->trial.config;
  answer.saved_record = found.saved;
  answer.reason = ExplainMatch(found.match, query, *found.record, policy_, wanted_hash);
  return answer;
}

}  // namespace tune::lookup
