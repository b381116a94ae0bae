// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/records/shipped_records.h"
#include "tuner/device_profile.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

DimMatch FromSpec(v1::DimMatch match) {
  switch (match) {
    case v1::DIM_MATCH_EXACT:
      return DimMatch::kExact;
    case v1::DIM_MATCH_BUCKETED:
      return DimMatch::kBucketed;
    case v1::DIM_MATCH_IGNORED:
      return DimMatch::kIgnored;
    default:
      return DimMatch::kNearest;
  }
}

// The kernel that a query names. Of a source that is known under the same name in another name
// space only, that one: whoever has the source may have what is known of it.
Knowledge::Kernels::const_iterator FindKernel(const Knowledge::Kernels& kernels,
                                              const RecordQuery& query) {
  const auto named = kernels.find(query.kernel_name);
  if (query.kernel_hash.empty()) return named;
  if (named != kernels.end() && named->second->hash() == query.kernel_hash) return named;
  const auto same = std::find_if(kernels.begin(), kernels.end(), [&](const auto& kernel) {
    return kernel.second->hash() == query.kernel_hash &&
           kernel.second->spec().name() == query.kernel_name;
  });
  return same == kernels.end() ? named : same;
}

}  // namespace

KernelPolicy PolicyOf(const std::string& name, const Kernel& kernel) {
  KernelPolicy policy{.kernel_name = name, .kernel_hash = kernel.hash()};
  for (const v1::Dim& dim : kernel.spec().dims()) policy.dims[dim.name()] = FromSpec(dim.match());
  return policy;
}

absl::StatusOr<std::unique_ptr<RecordBook>> RecordBook::Open(db::Store& store,
                                                             const Catalogue& catalogue,
                                                             const Devices& devices,
                                                             SpaceSolver& solver) {
  std::unique_ptr<RecordBook> book(new RecordBook(store, catalogue, devices, solver));
  auto kernels = std::make_shared<Kernels>();
  for (const auto& [name, named] : catalogue.kernels()) kernels->emplace(name, named.kernel);
  {
    std::lock_guard lock(book->mutex_);
    book->state_.known.kernels = std::move(kernels);
  }
  // Records that are there are answered from, even if none can be added now.
  if (store.writable()) {
    const absl::StatusOr<int64_t> published = store.RebuildRecords();
    if (!published.ok()) {
      spdlog::error("records that a crash held back stay back: {}", published.status().ToString());
    } else if (*published > 0) {
      spdlog::info("{} records published that a crash had held back", *published);
    }
  }
  ASSIGN_OR_RETURN(book->shipped_, LoadShippedRecords());
  RETURN_IF_ERROR(book->Load());
  return book;
}

absl::Status RecordBook::Learn(const db::RecordRow& newest, Kernels& kernels) const {
  const std::string& name = newest.kernel_name;
  if (catalogue_.kernels().contains(name)) return absl::OkStatus();
  const auto known = kernels.find(name);
  if (known != kernels.end() && known->second->hash() == newest.key.kernel_hash) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(db::KernelRow row, store_.GetKernel(newest.key.kernel_hash));
  absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
      Kernel::Create(row.spec_name, row.spec_text, row.files);
  if (kernel.ok()) {
    kernels[name] = *std::move(kernel);
  } else {
    spdlog::warn("records of {} are not used: {}", name, kernel.status().ToString());
  }
  return absl::OkStatus();
}

absl::Status RecordBook::Load() {
  ASSIGN_OR_RETURN(std::vector<db::RecordRow> own, store_.CurrentRecords());
  std::vector<db::RecordRow> records = WithShipped(shipped_, std::move(own));
  auto kernels = std::make_shared<Kernels>(*state().known.kernels);
  auto devices = std::make_shared<SeenDevices>();
  std::set<std::string> learned;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (!IsShipped(*record) && learned.insert(record->kernel_name).second) {
      if (const absl::Status status = Learn(*record, *kernels); !status.ok()) {
        spdlog::error("records of {} are not used: {}", record->kernel_name, status.ToString());
        store_.NoteUnreadable({"record", record->id, std::string(status.message())});
      }
    }
    SeenDevice& device = (*devices)[record->key.device_name];
    if (device.target.empty()) device = {record->key.target, record->id};
  }
  std::vector<KernelPolicy> policies;
  for (const auto& [name, kernel] : *kernels) policies.push_back(PolicyOf(name, *kernel));
  std::shared_ptr<const LookupIndex> index = LookupIndex::Build(std::move(records), policies);
  std::lock_guard lock(mutex_);
  state_ = {.known = {.index = std::move(index), .kernels = std::move(kernels)},
            .devices = std::move(devices)};
  return absl::OkStatus();
}

absl::Status RecordBook::Publish(db::RecordRow record) {
  std::lock_guard publish_lock(publish_mutex_);
  ASSIGN_OR_RETURN(record.id, store_.PublishRecord(record));
  const State before = state();
  auto kernels = std::make_shared<Kernels>(*before.known.kernels);
  RETURN_IF_ERROR(Learn(record, *kernels));
  auto devices = std::make_shared<SeenDevices>(*before.devices);
  (*devices)[record.key.device_name] = {record.key.target, record.id};
  const auto kernel = kernels->find(record.kernel_name);
  const KernelPolicy policy = kernel != kernels->end()
                                  ? PolicyOf(kernel->first, *kernel->second)
                                  : KernelPolicy{.kernel_name = record.kernel_name};
  record.trial.measurement.samples_ns = {};
  std::shared_ptr<const LookupIndex> index = before.known.index->With(std::move(record), policy);
  {
    std::lock_guard lock(mutex_);
    state_ = {.known = {.index = std::move(index), .kernels = std::move(kernels)},
              .devices = std::move(devices)};
  }
  if (published_) published_();
  return absl::OkStatus();
}

RecordBook::State RecordBook::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

std::shared_ptr<const LookupIndex> RecordBook::snapshot() const { return state().known.index; }

absl::StatusOr<RecordBook::Place> RecordBook::PlaceOf(const std::string& device,
                                                      const SeenDevices& seen) const {
  const std::vector<DeviceStatus> known = devices_.Known();
  for (const DeviceStatus& status : known) {
    if (status.info.name.empty()) continue;
    const bool asked = status.id == device || status.info.name == device;
    if (device.empty() ? MayBeDefault(status) : asked) {
      return Place{.device_name = status.info.name, .traits = TraitsOf(status.info)};
    }
  }
  // Not a device of this host, or not probed yet: the records tell, a GPU's before a CPU's.
  const SeenDevices::value_type* best = nullptr;
  int fitting = 0;
  for (const auto& entry : seen) {
    const auto& [name, other] = entry;
    const bool was_here = other.newest_record_id != 0;
    const bool like_it = absl::StartsWith(device, ProfileOfTarget(other.target).family);
    const bool fits = name == device || (was_here && (device.empty() || like_it));
    if (!fits) continue;
    ++fitting;
    const auto rank = [](const SeenDevice& of) {
      return std::pair(!ProfileOfTarget(of.target).is_host, of.newest_record_id);
    };
    if (best == nullptr || rank(other) > rank(best->second)) best = &entry;
  }
  Place place{.device_name = device};
  const DeviceProfile& everywhere = *DeviceProfiles().back();
  std::string target = everywhere.common_targets.front();
  if (best != nullptr) {
    place.device_name = best->first;
    target = best->second.target;
    if (fitting > 1) place.note = absl::StrCat("the device is taken to be ", place.device_name);
  } else if (!device.empty() && device != everywhere.family) {
    place.note = absl::StrCat("device '", device, "' is not known here");
  }
  ASSIGN_OR_RETURN(place.traits, TargetTraitsFor(target));
  return place;
}

absl::StatusOr<RecordBook::Found> RecordBook::Find(const RecordQuery& query) const {
  const State state = this->state();
  const auto found = FindKernel(*state.known.kernels, query);
  if (found == state.known.kernels->end()) {
    return absl::NotFoundError(absl::StrCat(
        "no kernel '", query.kernel_name, "'; there is: ",
        absl::StrJoin(*state.known.kernels, ", ",
                      [](std::string* out, const auto& kernel) { out->append(kernel.first); })));
  }
  const Kernel& kernel = *found->second;
  ASSIGN_OR_RETURN(Place place, PlaceOf(query.device, *state.devices));
  ASSIGN_OR_RETURN(Problem problem,
                   kernel.MakeProblem(query.dims, query.dtype, place.traits.target));
  const LookupQuery index_query{.kernel_name = found->first,
                                .kernel_hash = query.kernel_hash,
                                .problem = problem,
                                .device_name = place.device_name,
                                .target = place.traits.target};
  const auto runs = [&](const db::RecordRow& record) {
    const bool same = record.key.kernel_hash == kernel.hash() && record.key.problem == problem;
    return same || kernel.CheckConfig(problem, place.traits, record.trial.config).ok();
  };
  const LookupAnswer match = state.known.index->Lookup(index_query, runs);
  Found result{.answer = {.match = match.match,
                          .reason = match.reason,
                          .record = match.record,
                          .snapshot = state.known.index,
                          .kernel_name = found->first,
                          .kernel = found->second,
                          .problem = std::move(problem),
                          .device_name = std::move(place.device_name),
                          .traits = place.traits}};
  if (match.config != nullptr) {
    result.answer.config = *match.config;
  } else {
    result.wanted = {found->second, result.answer.problem, place.traits};
  }
  if (!place.note.empty()) absl::StrAppend(&result.answer.reason, "; ", place.note);
  return result;
}

RecordQuery QueryFor(const Kernel& kernel, const Problem& problem, const std::string& device) {
  RecordQuery query{.kernel_name = kernel.spec().name(),
                    .dtype = ToText(problem.dtype),
                    .device = device,
                    .kernel_hash = kernel.hash()};
  for (const auto& [name, value] : problem.dims) query.dims[name] = value;
  return query;
}

absl::StatusOr<RecordAnswer> RecordBook::Lookup(const RecordQuery& query,
                                                const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(Found found, Find(query));
  if (found.wanted) {
    ASSIGN_OR_RETURN(found.answer.config, safe_configs_.Find(*found.wanted, cancelled));
  }
  return std::move(found.answer);
}

std::optional<absl::StatusOr<RecordAnswer>> RecordBook::LookupAtOnce(
    const RecordQuery& query) const {
  absl::StatusOr<Found> found = Find(query);
  if (!found.ok()) return found.status();
  if (found->wanted) {
    const std::optional<absl::StatusOr<Config>> config = safe_configs_.Known(*found->wanted);
    if (!config) return std::nullopt;
    if (!config->ok()) return config->status();
    found->answer.config = **config;
  }
  return std::move(found->answer);
}

}  // namespace tune::server
