// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_book.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/near_name.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/records/shipped_records.h"
#include "server/rpc/error_detail.h"
#include "server/wire/spec.h"
#include "tuner/device_profile.h"
#include "tuner/kernel/launch_sizes_of.h"
#include "tuner/spelling.h"

namespace tune::server {
namespace {

std::vector<lookup::KernelPolicy> PoliciesOf(const Knowledge::Kernels& kernels,
                                             const IncludeRoots& include_roots) {
  std::vector<lookup::KernelPolicy> policies;
  for (const auto& [name, kernel] : kernels) {
    policies.push_back(PolicyOf(name, *kernel, IncludeDigestOf(*kernel, include_roots)));
  }
  return policies;
}

// Finds the kernel that a query names. If its source is known under that name only in another name
// space, finds that kernel: a caller that has the source may have what is known of it.
Knowledge::Kernels::const_iterator FindKernel(const Knowledge::Kernels& kernels,
                                              const RecordQuery& query) {
  const auto named = kernels.find(query.kernel_name);
  if (query.kernel_hash.empty()) return named;
  if (named != kernels.end() && named->second->hash() == query.kernel_hash) return named;
  const auto same = std::find_if(kernels.begin(), kernels.end(), [&](const auto& kernel) {
    return kernel.second->hash() == query.kernel_hash &&
           kernel.second->spec().name == query.kernel_name;
  });
  return same == kernels.end() ? named : same;
}

// Which configs are valid for a problem. What it takes is worked out when one is asked about.
class ValidConfigs {
 public:
  // All must outlive this.
  ValidConfigs(const Kernel& kernel, const Problem& problem, const TargetTraits& traits)
      : kernel_(kernel), problem_(problem), traits_(traits) {}

  bool Have(const Config& config) {
    if (!space_) space_ = kernel_.DefineSpace(problem_, traits_);
    return space_->ok() && Kernel::CheckConfig(**space_, config).ok();
  }

 private:
  const Kernel& kernel_;
  const Problem& problem_;
  const TargetTraits& traits_;
  std::optional<absl::StatusOr<SpaceDefinition>> space_;
};

// Completes an answer that no record gives.
void TakeSafe(SafeConfigs::Safe safe, RecordAnswer& answer) {
  answer.config = std::move(safe.config);
  absl::StrAppend(&answer.reason, "; ", safe.what);
}

}  // namespace

std::string IncludeDigestOf(const Kernel& kernel, const IncludeRoots& include_roots) {
  const auto& names = kernel.spec().include_roots;
  return include_roots.DigestOf({names.begin(), names.end()});
}

lookup::KernelPolicy PolicyOf(const std::string& name, const Kernel& kernel,
                              const std::string& include_digest) {
  const bool offered = !include_digest.empty() || kernel.spec().include_roots.empty();
  lookup::KernelPolicy policy{
      .kernel_name = name,
      .kernel_hash = kernel.hash(),
      .include_digest = offered ? include_digest : lookup::kHeadersNotOffered};
  for (const DimSpec& dim : kernel.spec().dims) policy.dims[dim.name] = dim.match;
  return policy;
}

absl::StatusOr<std::unique_ptr<RecordBook>> RecordBook::Open(
    db::Store& store, const Catalogue& catalogue, const Devices& devices, SpaceSolver& solver,
    const KeptIndex& kept, IncludeRoots include_roots, GridsTime grids) {
  std::unique_ptr<RecordBook> book(
      new RecordBook(store, catalogue, devices, solver, kept, std::move(include_roots), grids));
  auto kernels = std::make_shared<Kernels>();
  for (const auto& [name, named] : catalogue.kernels()) kernels->emplace(name, named.kernel);
  {
    MutexLock lock(book->mutex_);
    book->state_.known.kernels = std::move(kernels);
  }
  auto shipped = ShippedRecords::Load(ShippedFolder());
  if (!shipped.ok()) {
    spdlog::error("records that ship are left out: {}", shipped.status().ToString());
    shipped = ShippedRecords::Load("");
  }
  ASSIGN_OR_RETURN(book->shipped_, std::move(shipped));
  const absl::Status loaded = book->LoadKept();
  if (!loaded.ok()) {
    if (!absl::IsNotFound(loaded)) spdlog::warn("the index is made again: {}", loaded.ToString());
    book->Complete(0);
    RETURN_IF_ERROR(book->Load());
  }
  {
    MutexLock lock(book->publish_mutex_);
    book->caught_up_to_ = book->known_state().known.index->snapshot_id();
  }
  ASSIGN_OR_RETURN(book->settled_sweep_, store.SettledSweep());
  book->KeepIfWorthwhile();
  return book;
}

// Records that are there are answered from, even if none can be added now.
void RecordBook::Complete(int64_t sweep_id) {
  if (!store_.writable()) return;
  const absl::StatusOr<int64_t> published = store_.RebuildRecords(sweep_id);
  if (!published.ok()) {
    spdlog::error("records that a crash held back stay back: {}", published.status().ToString());
  } else if (*published > 0) {
    spdlog::info("published {} that a crash had held back", Counted(*published, "record"));
  }
}

absl::Status RecordBook::Learn(const std::string& name, const std::string& hash,
                               Kernels& kernels) const {
  if (catalogue_.kernels().contains(name)) return absl::OkStatus();
  const auto known = kernels.find(name);
  if (known != kernels.end() && known->second->hash() == hash) return absl::OkStatus();
  ASSIGN_OR_RETURN(db::KernelRow row, store_.GetKernel(hash));
  absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
      ReadKernel(row.spec_name, row.spec_text, row.files);
  if (kernel.ok()) {
    kernels[name] = *std::move(kernel);
  } else {
    spdlog::warn("records of {} are not used: {}", name, kernel.status().ToString());
  }
  return absl::OkStatus();
}

void RecordBook::LearnOrNote(const lookup::Record& newest, Kernels& kernels) const {
  const absl::Status status = Learn(newest.kernel_name, newest.key.kernel_hash, kernels);
  if (status.ok()) return;
  spdlog::error("records of {} are not used: {}", newest.kernel_name, status.ToString());
  store_.NoteUnreadable({"record", newest.id, std::string(status.message())});
}

void RecordBook::SetState(State state) const {
  if (grids_ == GridsTime::kAtOnce && state.known.grids != nullptr) {
    state.known.grids->MakeThoseOfStore();
  }
  {
    MutexLock lock(mutex_);
    state_ = std::move(state);
  }
  ++state_version_;
}

uint64_t RecordBook::version() const {
  return absl::HashOf(state_version_.load(), devices_.version());
}

absl::Status RecordBook::LoadKept() {
  if (kept_.path.empty()) return absl::NotFoundError("no index is kept");
  ASSIGN_OR_RETURN(const auto file, lookup::RecordFile::Open(kept_.path, WireCodec()));
  ASSIGN_OR_RETURN(const std::string text, lookup::Index::NoteOf(*file));
  ASSIGN_OR_RETURN(IndexNote note, ParseIndexNote(text));
  if (note.program != ProgramMark(shipped_->Digest()))
    return absl::NotFoundError("it is another program's");
  auto kernels = std::make_shared<Kernels>(*known_state().known.kernels);
  for (const auto& [name, hash] : note.kernels) RETURN_IF_ERROR(Learn(name, hash, *kernels));
  ASSIGN_OR_RETURN(std::shared_ptr<const lookup::Index> index,
                   lookup::Index::Open(file, PoliciesOf(*kernels, *include_roots_)));
  ASSIGN_OR_RETURN(const std::string fingerprint,
                   store_.FingerprintOfRecords(index->snapshot_id()));
  if (note.store != fingerprint) return absl::NotFoundError("the store has other records");
  Complete(note.settled_sweep);
  ASSIGN_OR_RETURN(std::vector<lookup::Record> newer, store_.RecordsAfter(index->snapshot_id()));
  auto devices = std::make_shared<lookup::SeenDevices>(std::move(note.devices));
  std::vector<lookup::RecordPtr> added;
  for (lookup::Record& record : newer) {
    LearnOrNote(record, *kernels);
    (*devices)[record.key.device_name] = {record.key.target, record.id};
    added.push_back(std::make_shared<const lookup::Record>(std::move(record)));
  }
  const std::vector<lookup::KernelPolicy> policies = PoliciesOf(*kernels, *include_roots_);
  index = index->With(added, policies);
  ASSIGN_OR_RETURN(std::vector<lookup::Record> newest, store_.NewestRecords(kGridRecordsMax));
  std::reverse(newest.begin(), newest.end());
  ASSIGN_OR_RETURN(std::vector<lookup::Record> shipped, shipped_->All());
  std::vector<lookup::Record> with_shipped = WithShipped(std::move(shipped), std::move(newest));
  std::vector<lookup::RecordPtr> speaking;
  for (auto record = with_shipped.rbegin(); record != with_shipped.rend(); ++record) {
    speaking.push_back(std::make_shared<const lookup::Record>(std::move(*record)));
  }
  std::shared_ptr<const ShapeGrids> grids =
      ShapeGrids::Build(speaking, policies, GridSources(kernels));
  SetState({.known = {.index = std::move(index),
                      .kernels = std::move(kernels),
                      .grids = std::move(grids),
                      .include_roots = include_roots_},
            .devices = std::move(devices)});
  all_shipped_ = true;
  return absl::OkStatus();
}

absl::Status RecordBook::Load() {
  ASSIGN_OR_RETURN(std::vector<lookup::Record> records, store_.CurrentRecords());
  auto kernels = std::make_shared<Kernels>(*known_state().known.kernels);
  auto devices = std::make_shared<lookup::SeenDevices>();
  std::set<std::string> learned;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (learned.insert(record->kernel_name).second) LearnOrNote(*record, *kernels);
    lookup::SeenDevice& device = (*devices)[record->key.device_name];
    if (device.target.empty()) device = {record->key.target, record->id};
  }
  devices->insert(shipped_->devices().begin(), shipped_->devices().end());
  if (grids_ == GridsTime::kAtOnce) {
    ASSIGN_OR_RETURN(std::vector<lookup::Record> shipped, shipped_->All());
    records = WithShipped(std::move(shipped), std::move(records));
    all_shipped_ = true;
  }
  SetRecords(std::move(records), std::move(kernels), std::move(devices));
  return absl::OkStatus();
}

void RecordBook::SetRecords(std::vector<lookup::Record> records,
                            std::shared_ptr<const Kernels> kernels,
                            std::shared_ptr<const lookup::SeenDevices> devices) const {
  const std::vector<lookup::KernelPolicy> policies = PoliciesOf(*kernels, *include_roots_);
  std::shared_ptr<const lookup::Index> index = lookup::Index::Build(std::move(records), policies);
  std::shared_ptr<const ShapeGrids> grids =
      ShapeGrids::Build(index->Records(), policies, GridSources(kernels));
  SetState({.known = {.index = std::move(index),
                      .kernels = std::move(kernels),
                      .grids = std::move(grids),
                      .include_roots = include_roots_},
            .devices = std::move(devices)});
}

void RecordBook::ReadShipped(const std::string* kernel) const {
  if (all_shipped_) return;
  MutexLock lock(shipped_mutex_);
  if (all_shipped_ || (kernel != nullptr && !shipped_kernels_.insert(*kernel).second)) return;
  absl::StatusOr<std::vector<lookup::Record>> shipped =
      kernel != nullptr ? shipped_->OfKernel(*kernel) : shipped_->All();
  if (!shipped.ok()) {
    spdlog::error("records that ship are left out: {}", shipped.status().ToString());
  } else if (!shipped->empty()) {
    const State before = known_state();
    std::vector<lookup::Record> records;
    for (const lookup::RecordPtr& record : before.known.index->Records()) {
      records.push_back(*record);
    }
    SetRecords(WithShipped(*std::move(shipped), std::move(records)), before.known.kernels,
               before.devices);
  }
  if (kernel == nullptr) all_shipped_ = true;
}

void RecordBook::KeepIfWorthwhile() {
  if (kept_.path.empty() || !store_.writable()) return;
  const std::shared_ptr<const lookup::Index> index = known_state().known.index;
  const size_t unsaved = index->unsaved_count();
  const bool has_file = unsaved < index->record_count();
  if (unsaved < (has_file ? kept_.worth_another : kept_.worth_a_file) || keeping_.exchange(true))
    return;
  const auto queued = keeper_.Run([this] {
    const absl::Status kept = Keep([this] { return keeper_.stopping(); });
    if (kept.ok()) {  // else not again in this process
      keeping_ = false;
      KeepIfWorthwhile();  // what was published meanwhile
    }
#ifdef __GLIBC__
    malloc_trim(0);  // the records that were in memory, and are in the file now
#endif
    if (!kept.ok() && !absl::IsCancelled(kept)) {
      spdlog::error("the index of the records is not kept, so the next start takes longer: {}",
                    kept.ToString());
    }
  });
  if (!queued.ok()) keeping_ = false;
}

absl::Status RecordBook::Keep(const Cancelled& cancelled) {
  const State before = state();
  IndexNote note{.program = ProgramMark(shipped_->Digest()),
                 .settled_sweep = settled_sweep_,
                 .devices = *before.devices};
  ASSIGN_OR_RETURN(note.store, store_.FingerprintOfRecords(before.known.index->snapshot_id()));
  for (const auto& [name, kernel] : *before.known.kernels) {
    if (!catalogue_.kernels().contains(name)) note.kernels[name] = kernel->hash();
  }
  const lookup::RecordCodec codec = WireCodec();
  RETURN_IF_ERROR(before.known.index->Save(kept_.path, ToText(note), codec, cancelled));
  ASSIGN_OR_RETURN(const auto file, lookup::RecordFile::Open(kept_.path, codec));
  // From here on what was written is answered from, and what was published meanwhile.
  MutexLock publish_lock(publish_mutex_);
  State now = state();
  const std::vector<lookup::KernelPolicy> policies =
      PoliciesOf(*now.known.kernels, *include_roots_);
  ASSIGN_OR_RETURN(std::shared_ptr<const lookup::Index> index, lookup::Index::Open(file, policies));
  now.known.index = index->With(now.known.index->UnsavedSince(index->snapshot_id()), policies);
  SetState(std::move(now));
  return absl::OkStatus();
}

absl::Status RecordBook::Publish(lookup::Record record, const db::SweepRow* done) {
  MutexLock publish_lock(publish_mutex_);
  auto kernels = std::make_shared<Kernels>(*state().known.kernels);
  RETURN_IF_ERROR(Learn(record.kernel_name, record.key.kernel_hash, *kernels));
  ASSIGN_OR_RETURN(record.id, store_.PublishRecord(record, done));
  // From here on nothing fails: what the store has is answered from. If the records of other hosts
  // that came before cannot be read now, the next CatchUp reads them.
  if (store_.fleet() != nullptr && CatchUpTo(record.id).ok()) return absl::OkStatus();
  return Add(std::move(record));
}

absl::Status RecordBook::CatchUp() {
  MutexLock publish_lock(publish_mutex_);
  return CatchUpTo(std::numeric_limits<int64_t>::max());
}

absl::Status RecordBook::CatchUpTo(int64_t last_id) {
  ASSIGN_OR_RETURN(std::vector<lookup::Record> records, store_.RecordsAfter(caught_up_to_));
  for (lookup::Record& record : records) {
    if (record.id > last_id) break;
    const int64_t id = record.id;
    if (const absl::Status added = Add(std::move(record)); !added.ok()) {
      spdlog::error("record {} is left out: {}", id, added.ToString());
    }
    caught_up_to_ = id;
  }
  return absl::OkStatus();
}

absl::Status RecordBook::Add(lookup::Record record) {
  const State before = state();
  auto kernels = std::make_shared<Kernels>(*before.known.kernels);
  RETURN_IF_ERROR(Learn(record.kernel_name, record.key.kernel_hash, *kernels));
  auto devices = std::make_shared<lookup::SeenDevices>(*before.devices);
  (*devices)[record.key.device_name] = {record.key.target, record.id};
  const auto kernel = kernels->find(record.kernel_name);
  const lookup::KernelPolicy policy =
      kernel != kernels->end() ? PolicyOf(kernel->first, *kernel->second,
                                          IncludeDigestOf(*kernel->second, *include_roots_))
                               : lookup::KernelPolicy{.kernel_name = record.kernel_name};
  record.trial.measurement.samples_ns = {};
  std::shared_ptr<const ShapeGrids> grids =
      before.known.grids->With(std::make_shared<const lookup::Record>(record),
                               PoliciesOf(*kernels, *include_roots_), GridSources(kernels));
  std::shared_ptr<const lookup::Index> index = before.known.index->With(std::move(record), policy);
  SetState({.known = {.index = std::move(index),
                      .kernels = std::move(kernels),
                      .grids = std::move(grids),
                      .include_roots = include_roots_},
            .devices = std::move(devices)});
  if (published_) published_();
  KeepIfWorthwhile();
  return absl::OkStatus();
}

const ShippedSweeps& RecordBook::shipped_sweeps() const {
  std::call_once(shipped_sweeps_once_, [this] {
    auto sweeps = ShippedSweeps::Load(ShippedFolder());
    if (!sweeps.ok()) spdlog::error("{}", sweeps.status().ToString());
    shipped_sweeps_ = sweeps.ok() ? *sweeps : std::make_shared<const ShippedSweeps>();
  });
  return *shipped_sweeps_;
}

ShapeGrids::Sources RecordBook::GridSources(std::shared_ptr<const Kernels> kernels) const {
  using Configs = std::vector<lookup::TimedConfig>;
  const auto read = [this](const lookup::Record& record,
                           uint32_t limit) -> absl::StatusOr<Configs> {
    if (!IsShipped(record)) return store_.FastestOfKey(record.key, limit);
    ASSIGN_OR_RETURN(const ShippedSweeps::Sweep* sweep, shipped_sweeps().Of(record));
    return sweep != nullptr ? sweep->Configs(limit) : Configs();
  };
  const auto launches = [kernels](const lookup::Record& record) -> std::shared_ptr<LaunchSizes> {
    const auto kernel = kernels->find(record.kernel_name);
    if (kernel == kernels->end() || kernel->second->hash() != record.key.kernel_hash)
      return nullptr;
    return std::make_shared<LaunchSizes>(
        LaunchSizesOf(*kernel->second, record.key.problem, record.key.target));
  };
  const auto shipped = [this](const ShippedRecords::GridKey& key) { return shipped_->GridOf(key); };
  return {.read = read, .launches = launches, .shipped = shipped};
}

RecordBook::State RecordBook::known_state() const {
  MutexLock lock(mutex_);
  return state_;
}

RecordBook::State RecordBook::state() const {
  ReadShipped(nullptr);
  return known_state();
}

RecordBook::State RecordBook::state_of(const std::string& kernel_name) const {
  ReadShipped(&kernel_name);
  return known_state();
}

std::shared_ptr<const lookup::Index> RecordBook::snapshot() const { return state().known.index; }

absl::StatusOr<RecordBook::Place> RecordBook::PlaceOf(const std::string& asked,
                                                      const lookup::SeenDevices& seen) const {
  const std::string device = DeviceIdOf(asked);
  const std::shared_ptr<const std::vector<DeviceStatus>> known = devices_.Known();
  const auto is_asked = [&device](const DeviceStatus& status) {
    return device == status.id || device == ProfileOfDevice(status.id).family;
  };
  for (const DeviceStatus& status : *known) {
    if (status.info.name.empty()) continue;
    if (device.empty() ? MayBeDefault(status) : is_asked(status) || device == status.info.name) {
      return Place{.device_name = status.info.name,
                   .traits = TraitsOf(status.info),
                   .driver = status.info.driver};
    }
  }
  // A GPU of this host that was not opened yet goes by what its driver calls it.
  const auto unopened = std::find_if(known->begin(), known->end(), [&](const DeviceStatus& status) {
    return !status.model.empty() && status.info.name.empty() &&
           (device.empty() || is_asked(status));
  });
  lookup::RecordedPlace recorded =
      lookup::PlaceByRecords(unopened == known->end() ? device : unopened->model, seen);
  Place place{.device_name = std::move(recorded.device), .note = std::move(recorded.note)};
  ASSIGN_OR_RETURN(place.traits, TargetTraitsFor(recorded.target));
  return place;
}

lookup::Expectation RecordBook::AskOthers(const lookup::Query& query, const Kernel& kernel,
                                          const TargetTraits& traits, const Knowledge& known,
                                          AcceptConfig accept, lookup::Answer& match) const {
  lookup::Query of_source = query;
  of_source.kernel_hash = kernel.hash();
  const lookup::KernelPolicy policy =
      PolicyOf(query.kernel_name, kernel, IncludeDigestOf(kernel, *include_roots_));
  std::vector<lookup::SpeakingGrid> grids = known.grids->Speaking(of_source, policy);
  std::optional<LaunchSizes> launches;  // made when the first is asked for
  for (lookup::SpeakingGrid& grid : grids) {
    grid.blocks_of = [&](const Config& config) {
      if (!launches) launches = LaunchSizesOf(kernel, query.problem, traits.target);
      return launches->Blocks(config);
    };
  }
  return lookup::AskGrids(std::move(grids), of_source, policy, kernel.hash(), accept, match);
}

absl::StatusOr<RecordBook::Found> RecordBook::Find(const RecordQuery& query,
                                                   const State& state) const {
  const auto found = FindKernel(*state.known.kernels, query);
  if (found == state.known.kernels->end()) {
    std::vector<std::string> names;
    std::vector<std::string> brought;  // by submitters, under that name
    for (const auto& [name, kernel] : *state.known.kernels) {
      names.push_back(name);
      if (absl::EndsWith(name, "/" + query.kernel_name)) brought.push_back(name);
    }
    const std::string of_submitters =
        brought.empty() ? "" : absl::StrCat("did you mean ", absl::StrJoin(brought, " or "), "? ");
    const std::string near = brought.empty() ? DidYouMean(query.kernel_name, names) : "";
    v1::ErrorDetail detail;
    detail.set_reason(v1::ERROR_REASON_NO_SUCH_KERNEL);
    detail.set_kernel(query.kernel_name);
    return WithDetail(absl::NotFoundError(absl::StrCat(
                          "no kernel '", query.kernel_name, "'",
                          near.empty() ? absl::StrCat("; ", of_submitters,
                                                      "there is: ", absl::StrJoin(names, ", "))
                                       : near)),
                      detail);
  }
  const Kernel& kernel = *found->second;
  ASSIGN_OR_RETURN(Place place, PlaceOf(query.device, *state.devices));
  ASSIGN_OR_RETURN(Problem problem,
                   kernel.MakeProblem(query.dims, query.dtype, place.traits.target));
  const lookup::Query index_query{.kernel_name = found->first,
                                  .kernel_hash = query.kernel_hash,
                                  .problem = problem,
                                  .device_name = place.device_name,
                                  .target = place.traits.target,
                                  .driver = place.driver};
  ValidConfigs valid(kernel, problem, place.traits);
  const auto is_valid = [&](const Config& config) { return valid.Have(config); };
  const auto runs = [&](const lookup::Record& record) {
    const bool same = record.key.kernel_hash == kernel.hash() && record.key.problem == problem;
    return same || valid.Have(record.trial.config);
  };
  lookup::Answer match = state.known.index->Lookup(index_query, runs);
  lookup::Expectation expectation;
  if (match.match == lookup::Match::kExact) {
    expectation = lookup::ExpectMeasured(*match.record);
  } else if (query.kernel_hash.empty() || query.kernel_hash == kernel.hash()) {
    expectation = AskOthers(index_query, kernel, place.traits, state.known, is_valid, match);
  }
  Found result{.answer = {.match = match.match,
                          .reason = std::move(match.reason),
                          .record = match.record,
                          .record_on_wire = match.saved_record,
                          .expectation = std::move(expectation),
                          .snapshot = state.known.index,
                          .kernel_name = found->first,
                          .kernel = found->second,
                          .problem = std::move(problem),
                          .device_name = std::move(place.device_name),
                          .traits = place.traits,
                          .driver = std::move(place.driver),
                          .include_digest = IncludeDigestOf(kernel, *include_roots_)}};
  if (match.config != nullptr) {
    result.answer.config = *match.config;
  } else {
    result.wanted = {found->second, result.answer.problem, place.traits};
  }
  if (!place.note.empty()) absl::StrAppend(&result.answer.reason, "; ", place.note);
  return result;
}

RecordQuery QueryFor(const Kernel& kernel, const Problem& problem, const std::string& device) {
  RecordQuery query{.kernel_name = kernel.spec().name,
                    .dtype = ToText(problem.dtype),
                    .device = device,
                    .kernel_hash = kernel.hash()};
  for (const auto& [name, value] : problem.dims) query.dims[name] = value;
  return query;
}

absl::StatusOr<RecordAnswer> RecordBook::Lookup(const RecordQuery& query,
                                                const Cancelled& cancelled) const {
  return Lookup(query, state_of(query.kernel_name), cancelled);
}

std::vector<absl::StatusOr<RecordAnswer>> RecordBook::LookupMany(
    const std::vector<RecordQuery>& queries, const Cancelled& cancelled) const {
  const State state = this->state();
  std::vector<absl::StatusOr<RecordAnswer>> answers;
  for (const RecordQuery& query : queries) answers.push_back(Lookup(query, state, cancelled));
  return answers;
}

absl::StatusOr<RecordAnswer> RecordBook::Lookup(const RecordQuery& query, const State& state,
                                                const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(Found found, Find(query, state));
  if (found.wanted) {
    ASSIGN_OR_RETURN(SafeConfigs::Safe safe, safe_configs_.Find(*found.wanted, cancelled));
    TakeSafe(std::move(safe), found.answer);
  }
  return std::move(found.answer);
}

std::optional<absl::StatusOr<RecordAnswer>> RecordBook::LookupAtOnce(
    const RecordQuery& query) const {
  absl::StatusOr<Found> found = Find(query, state_of(query.kernel_name));
  if (!found.ok()) return found.status();
  if (found->wanted) {
    std::optional<absl::StatusOr<SafeConfigs::Safe>> safe = safe_configs_.Known(*found->wanted);
    if (!safe) return std::nullopt;
    if (!safe->ok()) return safe->status();
    TakeSafe(**std::move(safe), found->answer);
  }
  return std::move(found->answer);
}

}  // namespace tune::server
