// SPDX-License-Identifier: Apache-2.0
#include "server/lookup/index.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/lookup/reason.h"

namespace tune::server {
namespace {

// In a key: whichever hash, whichever device.
constexpr int64_t kAny = 0;
// In a key: nothing there is called that.
constexpr int64_t kUnknown = -1;
// If the nearest record is refused, this many are asked about before the next kind of match.
constexpr size_t kMaxTried = 16;

bool IsBetter(const db::RecordRow& a, const db::RecordRow& b) {
  return std::make_tuple(a.key.cache_mode, -a.id) < std::make_tuple(b.key.cache_mode, -b.id);
}

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
constexpr size_t kHashSlot = 1;
constexpr size_t kDeviceSlot = 2;

std::string MissingReason(const LookupQuery& query,
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
  return absl::StrCat("no record of ", name, " on ", query.device_name,
                      exact.empty() ? "" : " with ", absl::StrJoin(exact, " "),
                      ", nor of this problem on another device");
}

}  // namespace

// What is known of the records of one kernel name.
struct LookupIndex::Kernel {
  int64_t id = kUnknown;
  std::string wanted_hash;
  std::map<std::string, DimMatch> dims;
  std::set<int64_t> hashes;
  std::set<int64_t> devices;
  std::map<std::string, std::set<std::string>> dtypes_by_target;

  // A wildcard's trees are only built where they differ from the only tree there is.
  int64_t AnyHash() const { return hashes.size() == 1 ? *hashes.begin() : kAny; }
  int64_t AnyDevice() const { return devices.size() == 1 ? *devices.begin() : kAny; }
};

// A problem in the index's terms: the key of its tree and its place there.
struct LookupIndex::Located {
  Key key;
  Axes place;
  Axes bucket_low;
  Axes bucket_high;
};

struct LookupIndex::Found {
  Match match = Match::kNone;
  const db::RecordRow* record = nullptr;
  size_t refused = 0;  // records that `accept` did not take
};

LookupIndex::LookupIndex(std::vector<db::RecordRow> records) : records_(std::move(records)) {}

LookupIndex::~LookupIndex() = default;

std::shared_ptr<const LookupIndex> LookupIndex::Build(std::vector<db::RecordRow> records,
                                                      const std::vector<KernelPolicy>& policies) {
  std::shared_ptr<LookupIndex> index(new LookupIndex(std::move(records)));
  std::sort(index->records_.begin(), index->records_.end(), IsBetter);
  index->Describe(policies);
  index->AddTrees();
  return index;
}

int64_t LookupIndex::Intern(absl::string_view text) {
  // From 1: kAny is 0.
  return ids_.try_emplace(text, static_cast<int64_t>(ids_.size()) + 1).first->second;
}

int64_t LookupIndex::IdOf(absl::string_view text) const {
  auto found = ids_.find(text);
  return found == ids_.end() ? kUnknown : found->second;
}

LookupIndex::Kernel& LookupIndex::AddKernel(const std::string& name) {
  std::unique_ptr<Kernel>& kernel = kernels_[name];
  if (kernel == nullptr) kernel = std::make_unique<Kernel>(Kernel{.id = Intern(name)});
  return *kernel;
}

void LookupIndex::Describe(const std::vector<KernelPolicy>& policies) {
  for (const KernelPolicy& policy : policies) {
    Kernel& kernel = AddKernel(policy.kernel_name);
    kernel.wanted_hash = policy.kernel_hash;
    kernel.dims = policy.dims;
  }
  for (const db::RecordRow& record : records_) {
    snapshot_id_ = std::max(snapshot_id_, record.id);
    Kernel& kernel = AddKernel(record.kernel_name);
    kernel.hashes.insert(Intern(record.key.kernel_hash));
    kernel.devices.insert(Intern(record.key.device_name));
    kernel.dtypes_by_target[record.key.target].insert(ToText(record.key.problem.dtype));
    Intern(record.key.target);
    Intern(NamesOf(SortedDims(record.key.problem)));
  }
}

LookupIndex::Located LookupIndex::Locate(const Kernel& kernel, const Problem& problem,
                                         const std::string& target) const {
  const DimPointers dims = SortedDims(problem);
  Located located;
  located.key = {kernel.id, kAny, kAny};  // hash and device: the search fills them in
  located.key.push_back(IdOf(target));
  located.key.push_back(static_cast<int64_t>(problem.dtype));
  located.key.push_back(IdOf(NamesOf(dims)));
  for (const auto* dim : dims) {
    auto policy = kernel.dims.find(dim->first);
    const DimMatch match = policy == kernel.dims.end() ? DimMatch::kNearest : policy->second;
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

void LookupIndex::AddTrees() {
  struct Points {
    size_t axes = 0;
    std::vector<double> coordinates;
    std::vector<uint32_t> ranks;
  };
  absl::flat_hash_map<Key, Points> points;
  for (uint32_t rank = 0; rank < records_.size(); ++rank) {
    const db::RecordRow& record = records_[rank];
    const Kernel& kernel = *kernels_.at(record.kernel_name);
    Located located = Locate(kernel, record.key.problem, record.key.target);
    auto add = [&](int64_t hash, int64_t device) {
      located.key[kHashSlot] = hash;
      located.key[kDeviceSlot] = device;
      Points& there = points[located.key];
      there.axes = located.place.size();
      there.coordinates.insert(there.coordinates.end(), located.place.begin(), located.place.end());
      there.ranks.push_back(rank);
    };
    const int64_t hash = IdOf(record.key.kernel_hash);
    const int64_t device = IdOf(record.key.device_name);
    const bool any_hash = kernel.AnyHash() == kAny;
    const bool any_device = kernel.AnyDevice() == kAny;
    add(hash, device);
    if (any_hash) add(kAny, device);
    if (any_device) add(hash, kAny);
    if (any_hash && any_device) add(kAny, kAny);
  }
  trees_.reserve(points.size());
  for (auto& [key, there] : points) {
    trees_.try_emplace(key, there.axes, there.coordinates, std::move(there.ranks));
  }
}

LookupIndex::Found LookupIndex::SearchTree(Located& located, int64_t hash, int64_t device,
                                           Match last, Accept accept) const {
  Found found;
  located.key[kHashSlot] = hash;
  located.key[kDeviceSlot] = device;
  auto tree = trees_.find(located.key);
  if (tree == trees_.end()) return found;
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
  auto take = [&](Match match, PointTree::Hit hit) {
    if (!accept(records_[hit.rank])) return false;
    found.match = match;
    found.record = &records_[hit.rank];
    return true;
  };
  for (const auto& [match, box] : kinds) {
    if (match > last) break;
    const PointTree::Hit best = tree->second.Nearest(located.place, box);
    if (best.rank >= records_.size()) continue;  // nothing in the box
    if (take(match, best)) return found;
    for (PointTree::Hit hit : tree->second.Nearest(located.place, box, kMaxTried)) {
      if (hit != best && take(match, hit)) return found;
      ++found.refused;
    }
  }
  return found;
}

LookupIndex::Found LookupIndex::SearchKernel(const Kernel& kernel, const std::string& wanted_hash,
                                             const LookupQuery& query, Accept accept) const {
  Located located = Locate(kernel, query.problem, query.target);
  const int64_t any_hash = kernel.AnyHash();
  const int64_t any_device = kernel.AnyDevice();
  const int64_t hash = wanted_hash.empty() ? any_hash : IdOf(wanted_hash);
  const int64_t device = IdOf(query.device_name);

  Found found = SearchTree(located, hash, device, Match::kNearest, accept);
  size_t refused = found.refused;
  if (found.record == nullptr && any_hash != hash) {
    found = SearchTree(located, any_hash, device, Match::kNearest, accept);
    refused += found.refused;
    // Another source's record is never better than near.
    if (found.record != nullptr) found.match = Match::kNearest;
  }
  if (found.record != nullptr || any_device == device) return {found.match, found.record, refused};

  auto accept_elsewhere = [&](const db::RecordRow& record) {
    return record.key.device_name != query.device_name && accept(record);
  };
  found = SearchTree(located, hash, any_device, Match::kBucketed, accept_elsewhere);
  refused += found.refused;
  if (found.record == nullptr && any_hash != hash) {
    found = SearchTree(located, any_hash, any_device, Match::kBucketed, accept_elsewhere);
    refused += found.refused;
  }
  if (found.record != nullptr) found.match = Match::kOtherDevice;
  return {found.match, found.record, refused};
}

LookupAnswer LookupIndex::Lookup(const LookupQuery& query, Accept accept) const {
  LookupAnswer answer;
  auto entry = kernels_.find(query.kernel_name);
  if (entry == kernels_.end()) {
    answer.reason = MissingReason(query, {}, {}, 0);
    return answer;
  }
  const Kernel& kernel = *entry->second;
  const std::string& wanted_hash =
      query.kernel_hash.empty() ? kernel.wanted_hash : query.kernel_hash;
  const Found found = SearchKernel(kernel, wanted_hash, query, accept);
  answer.match = found.match;
  if (found.record == nullptr) {
    answer.reason = MissingReason(query, kernel.dtypes_by_target, kernel.dims, found.refused);
    return answer;
  }
  answer.record = found.record;
  answer.config = &found.record->trial.config;
  answer.reason = ExplainMatch(found.match, query, *found.record, kernel.dims, wanted_hash);
  return answer;
}

LookupAnswer LookupIndex::Lookup(const LookupQuery& query) const {
  return Lookup(query, [](const db::RecordRow&) { return true; });
}

}  // namespace tune::server
