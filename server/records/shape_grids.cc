// SPDX-License-Identifier: Apache-2.0
#include "server/records/shape_grids.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "tuner/kernel/kernel.h"
#include "tuner/transfer/waves.h"

namespace tune::server {
namespace {

using Dims = std::vector<std::pair<std::string, int64_t>>;

lookup::DimMatch MatchOf(const lookup::KernelPolicy& policy, const std::string& dim) {
  const auto found = policy.dims.find(dim);
  return found == policy.dims.end() ? lookup::DimMatch::kNearest : found->second;
}

// A problem as a place in a grid.
struct Place {
  Dims fixed;  // by name
  Dims axes;   // by name

  std::vector<int64_t> values() const {
    std::vector<int64_t> values;
    for (const auto& [name, value] : axes) values.push_back(value);
    return values;
  }
};

Place PlaceOf(const Problem& problem, const lookup::KernelPolicy& policy) {
  Place place;
  for (const auto& dim : problem.dims) {
    const lookup::DimMatch match = MatchOf(policy, dim.first);
    if (match == lookup::DimMatch::kIgnored) continue;
    (match == lookup::DimMatch::kExact ? place.fixed : place.axes).push_back(dim);
  }
  std::sort(place.fixed.begin(), place.fixed.end());
  std::sort(place.axes.begin(), place.axes.end());
  return place;
}

std::string FamilyKey(const std::string& kernel_name, const std::string& kernel_hash,
                      const std::string& target, const Problem& problem, const Place& place) {
  std::string key =
      absl::StrCat(kernel_name, "\n", kernel_hash, "\n", target, "\n", ToText(problem.dtype));
  for (const auto& [name, value] : place.fixed) absl::StrAppend(&key, "\n", name, "=", value);
  for (const auto& [name, value] : place.axes) absl::StrAppend(&key, "\n", name);
  return key;
}

// The launches of a record's configs; null where they are not known, or say nothing of the device.
std::shared_ptr<LaunchSizes> LaunchesOf(const lookup::Record& record, const TargetTraits& traits,
                                        const ShapeGrids::Sources& sources) {
  if (traits.sm == 0 || !sources.launches) return nullptr;
  return sources.launches(record);
}

// How many blocks of a config a multiprocessor holds; 0: not known.
int64_t ResidentsOf(const lookup::TimedConfig& one, const TargetTraits& traits,
                    LaunchSizes* launches) {
  if (launches == nullptr) return 0;
  const LaunchSize size = launches->Of(one.config);
  const int64_t dynamic = std::max(one.dynamic_shared_bytes, size.shared_bytes);
  return ResidentBlocks(traits.sm, traits.max_shared_bytes,
                        {.threads = size.threads,
                         .registers = one.registers,
                         .shared_bytes = one.static_shared_bytes + dynamic});
}

// The winner of a sweep comes first, as it was confirmed, whatever its search had measured.
SweptShape SweptShapeOf(const lookup::Record& record, const Place& place,
                        const TargetTraits& traits, const ShapeGrids::Sources& sources) {
  SweptShape swept{.dims = place.values(), .has_more = true};
  std::vector<lookup::TimedConfig> searched;
  if (auto found = sources.read(record, kGridConfigsRead + 1); found.ok()) {
    searched = *std::move(found);
    swept.has_more = searched.empty() || searched.size() > kGridConfigsRead;
  } else {
    spdlog::warn("record {} speaks for no other shape: {}", record.id, found.status().ToString());
  }
  const std::shared_ptr<LaunchSizes> launches = LaunchesOf(record, traits, sources);
  if (launches != nullptr) {
    swept.blocks_of = [launches](const Config& config) { return launches->Blocks(config); };
  }
  const Resources& resources = record.trial.resources;
  const lookup::TimedConfig winner{
      .config = record.trial.config,
      .latency_ns_median = searched.empty() ? record.trial.measurement.latency_ns_median
                                            : searched.front().latency_ns_median,
      .registers = resources.registers,
      .static_shared_bytes = resources.static_shared_bytes,
      .dynamic_shared_bytes = resources.dynamic_shared_bytes};
  const auto add = [&](const lookup::TimedConfig& one) {
    swept.configs.push_back(
        {one.config, one.latency_ns_median, ResidentsOf(one, traits, launches.get())});
  };
  add(winner);
  for (const lookup::TimedConfig& one : searched) {
    if (swept.configs.size() == kGridConfigsRead) break;
    if (one.config != winner.config) add(one);
  }
  return swept;
}

// The newest record of each shape, at most kGridShapesMax. `records` are of one grid, newest first.
std::vector<lookup::RecordPtr> NewestOfShapes(const std::vector<lookup::RecordPtr>& records,
                                              const lookup::KernelPolicy& policy) {
  std::set<std::vector<int64_t>> shapes;
  std::vector<lookup::RecordPtr> newest;
  for (const lookup::RecordPtr& record : records) {
    if (newest.size() == kGridShapesMax) break;
    const bool added = shapes.insert(PlaceOf(record->key.problem, policy).values()).second;
    if (added) newest.push_back(record);
  }
  return newest;
}

ShapeGrid GridOfSweeps(const std::vector<lookup::RecordPtr>& records, std::vector<std::string> axes,
                       const lookup::KernelPolicy& policy, const TargetTraits& traits,
                       const ShapeGrids::Sources& sources) {
  std::vector<SweptShape> sweeps;
  for (const lookup::RecordPtr& record : records) {
    const Place there = PlaceOf(record->key.problem, policy);
    sweeps.push_back(SweptShapeOf(*record, there, traits, sources));
  }
  // A device's own number is known only where the device is: all must answer alike.
  const int64_t multiprocessors = traits.sm > 0 ? traits.sm_count : 0;
  return MakeShapeGrid(std::move(axes), sweeps, multiprocessors);
}

// The grid that came with records, all of which came with the program.
std::optional<ShapeGrid> ShippedGrid(
    const std::map<std::vector<int64_t>, lookup::RecordPtr>& records, const Place& place,
    const std::vector<std::string>& axes, const ShapeGrids::Sources& sources) {
  const auto ships = [](const auto& record) { return IsShipped(*record.second); };
  if (!sources.shipped || !std::all_of(records.begin(), records.end(), ships)) return std::nullopt;
  std::optional<ShapeGrid> grid =
      sources.shipped({.record = *records.begin()->second, .fixed = place.fixed, .axes = axes});
  if (!grid) return std::nullopt;
  const bool same_shapes = std::equal(
      grid->shapes.begin(), grid->shapes.end(), records.begin(), records.end(),
      [](const ShapeGrid::Shape& shape, const auto& record) { return shape.dims == record.first; });
  return same_shapes ? std::move(grid) : std::nullopt;
}

std::shared_ptr<const DeviceGrid> MakeGrid(const std::vector<lookup::RecordPtr>& records,
                                           const lookup::KernelPolicy& policy,
                                           const ShapeGrids::Sources& sources) {
  const TrialKey& key = records.front()->key;
  const Place place = PlaceOf(key.problem, policy);
  const TargetTraits traits = TargetTraitsFor(key.target).value_or(TargetTraits());
  std::map<std::vector<int64_t>, lookup::RecordPtr> by_dims;
  for (const lookup::RecordPtr& record : records) {
    by_dims.emplace(PlaceOf(record->key.problem, policy).values(), record);
  }
  std::vector<std::string> axes;
  for (const auto& [name, value] : place.axes) axes.push_back(name);
  std::optional<ShapeGrid> grid = ShippedGrid(by_dims, place, axes, sources);
  if (!grid) grid = GridOfSweeps(records, std::move(axes), policy, traits, sources);
  auto made = std::make_shared<DeviceGrid>(DeviceGrid{.kernel_name = records.front()->kernel_name,
                                                      .kernel_hash = key.kernel_hash,
                                                      .target = key.target,
                                                      .device_name = key.device_name,
                                                      .dtype = key.problem.dtype,
                                                      .fixed = place.fixed,
                                                      .grid = *std::move(grid)});
  for (const auto& [dims, record] : by_dims) made->records.push_back(record);
  return made;
}

bool SpeaksForOthers(const lookup::Record& record, const lookup::KernelPolicy& policy) {
  return record.key.kernel_hash == policy.kernel_hash && policy.HasHeadersOf(record.key) &&
         record.key.cache_mode == CacheMode::kCold;
}

std::string FamilyKey(const lookup::Query& query, const Place& place) {
  return FamilyKey(query.kernel_name, query.kernel_hash, query.target, query.problem, place);
}

std::map<std::string, const lookup::KernelPolicy*> ByKernel(
    const std::vector<lookup::KernelPolicy>& policies) {
  std::map<std::string, const lookup::KernelPolicy*> by_kernel;
  for (const lookup::KernelPolicy& policy : policies) by_kernel[policy.kernel_name] = &policy;
  return by_kernel;
}

}  // namespace

// A grid's records, and the grid once it was asked for. Thread-safe.
class LazyGrid {
 public:
  // REQUIRES: records of one grid, newest first, at least one.
  LazyGrid(const std::vector<lookup::RecordPtr>& records, const lookup::KernelPolicy& policy,
           ShapeGrids::Sources sources)
      : records_(NewestOfShapes(records, policy)), policy_(policy), sources_(std::move(sources)) {}

  const std::vector<lookup::RecordPtr>& records() const { return records_; }

  const std::shared_ptr<const DeviceGrid>& Get() const {
    std::call_once(once_, [this] { made_ = MakeGrid(records_, policy_, sources_); });
    return made_;
  }

 private:
  const std::vector<lookup::RecordPtr> records_;
  const lookup::KernelPolicy policy_;
  const ShapeGrids::Sources sources_;
  mutable std::once_flag once_;
  mutable std::shared_ptr<const DeviceGrid> made_;
};

void ShapeGrids::Add(const lookup::RecordPtr& record, const lookup::KernelPolicy& policy,
                     const Sources& sources) {
  if (!SpeaksForOthers(*record, policy)) return;
  const TrialKey& key = record->key;
  const Place place = PlaceOf(key.problem, policy);
  std::shared_ptr<const LazyGrid>& grid = families_[FamilyKey(
      record->kernel_name, key.kernel_hash, key.target, key.problem, place)][key.device_name];
  std::vector<lookup::RecordPtr> records = {record};
  if (grid != nullptr) {
    records.insert(records.end(), grid->records().begin(), grid->records().end());
    std::stable_sort(records.begin(), records.end(),
                     [](const auto& a, const auto& b) { return a->id > b->id; });
  }
  grid = std::make_shared<LazyGrid>(records, policy, sources);
}

// Nobody asks what a source that has changed since was tuned to.
void ShapeGrids::DropOlderSources(const lookup::KernelPolicy& policy) {
  std::erase_if(families_, [&](const auto& family) {
    const lookup::Record& record = *family.second.begin()->second->records().front();
    return record.kernel_name == policy.kernel_name && record.key.kernel_hash != policy.kernel_hash;
  });
}

size_t ShapeGrids::RecordCount() const {
  size_t count = 0;
  for (const auto& [key, family] : families_) {
    for (const auto& [device, grid] : family) count += grid->records().size();
  }
  return count;
}

void ShapeGrids::DropOldest(const Policies& policies, const Sources& sources) {
  const auto is_older = [](const auto& a, const auto& b) { return a->id < b->id; };
  const auto id_of = [&](const auto& grid) {
    return (*std::min_element(grid->records().begin(), grid->records().end(), is_older))->id;
  };
  std::pair<std::string, std::string> place;
  int64_t oldest = std::numeric_limits<int64_t>::max();
  for (const auto& [key, family] : families_) {
    for (const auto& [device, grid] : family) {
      if (id_of(grid) >= oldest) continue;
      oldest = id_of(grid);
      place = {key, device};
    }
  }
  Family& family = families_[place.first];
  std::shared_ptr<const LazyGrid>& grid = family[place.second];
  std::vector<lookup::RecordPtr> rest = grid->records();
  const std::string kernel_name = rest.front()->kernel_name;
  std::erase_if(rest, [&](const auto& record) { return record->id == oldest; });
  std::sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a->id > b->id; });
  const auto policy = policies.find(kernel_name);
  if (!rest.empty() && policy != policies.end()) {
    grid = std::make_shared<LazyGrid>(rest, *policy->second, sources);
    return;
  }
  family.erase(place.second);
  if (family.empty()) families_.erase(place.first);
}

std::shared_ptr<const ShapeGrids> ShapeGrids::Build(
    const std::vector<lookup::RecordPtr>& records,
    const std::vector<lookup::KernelPolicy>& policies, const Sources& sources) {
  Policies by_kernel = ByKernel(policies);
  std::map<std::pair<std::string, std::string>, std::vector<lookup::RecordPtr>> members;
  size_t count = 0;
  for (const lookup::RecordPtr& record : records) {
    const auto policy = by_kernel.find(record->kernel_name);
    if (policy == by_kernel.end() || !SpeaksForOthers(*record, *policy->second)) continue;
    if (++count > kGridRecordsMax) break;
    const TrialKey& key = record->key;
    const Place place = PlaceOf(key.problem, *policy->second);
    members[{FamilyKey(record->kernel_name, key.kernel_hash, key.target, key.problem, place),
             key.device_name}]
        .push_back(record);
  }
  auto grids = std::make_shared<ShapeGrids>();
  for (const auto& [key, of_grid] : members) {
    grids->families_[key.first][key.second] =
        std::make_shared<LazyGrid>(of_grid, *by_kernel[of_grid.front()->kernel_name], sources);
  }
  return grids;
}

std::shared_ptr<const ShapeGrids> ShapeGrids::With(
    const lookup::RecordPtr& record, const std::vector<lookup::KernelPolicy>& policies,
    const Sources& sources) const {
  auto grids = std::make_shared<ShapeGrids>(*this);
  const Policies by_kernel = ByKernel(policies);
  const auto policy = by_kernel.find(record->kernel_name);
  if (policy == by_kernel.end()) return grids;
  grids->DropOlderSources(*policy->second);
  grids->Add(record, *policy->second, sources);
  while (grids->RecordCount() > kGridRecordsMax) grids->DropOldest(by_kernel, sources);
  return grids;
}

std::vector<lookup::SpeakingGrid> ShapeGrids::Speaking(const lookup::Query& query,
                                                       const lookup::KernelPolicy& policy) const {
  const Place place = PlaceOf(query.problem, policy);
  const auto family = families_.find(FamilyKey(query, place));
  if (family == families_.end()) return {};
  std::vector<lookup::SpeakingGrid> grids;
  for (const auto& [device, lazy] : family->second) {
    const std::shared_ptr<const DeviceGrid>& grid = lazy->Get();
    grids.push_back(
        {.device_name = device,
         .grid = &grid->grid,
         .place = place.values(),
         .record_of = [&records = grid->records](size_t shape) { return records[shape]; }});
  }
  return grids;
}

void ShapeGrids::MakeThoseOfStore() const {
  for (const auto& [key, family] : families_) {
    for (const auto& [device, grid] : family) {
      const std::vector<lookup::RecordPtr>& records = grid->records();
      const auto ships = [](const auto& record) { return IsShipped(*record); };
      if (!std::all_of(records.begin(), records.end(), ships)) grid->Get();
    }
  }
}

std::vector<std::shared_ptr<const DeviceGrid>> ShapeGrids::All() const {
  std::vector<std::shared_ptr<const DeviceGrid>> all;
  for (const auto& [key, family] : families_) {
    for (const auto& [device, grid] : family) all.push_back(grid->Get());
  }
  return all;
}

}  // namespace tune::server
