// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/warm_start.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/records/shipped_records.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

constexpr uint32_t kKeysMax = 256;
constexpr size_t kSourcesMax = 8;
constexpr int kGivenSourcesMax = 64;
constexpr size_t kSourceNameMax = 256;
constexpr double kTrustInRecordings = 0.8;  // of another device or shape; nobody says which
constexpr double kHalfTrusted = 10;         // trials: the best of a few may be far from good

// How far apart two problems are: powers of two, each mode that differs counting as two.
double Distance(const Problem& a, const Problem& b, const KernelSpec& spec) {
  double distance = 0;
  for (size_t i = 0; i < a.dims.size() && i < b.dims.size(); ++i) {
    const double from = static_cast<double>(a.dims[i].second);
    const double to = static_cast<double>(b.dims[i].second);
    if (from == to) continue;
    const bool mode = i < spec.dims.size() && spec.dims[i].match == DimMatch::kExact;
    distance += mode || from <= 0 || to <= 0 ? 2 : std::abs(std::log2(from / to));
  }
  return distance;
}

bool SameKey(const TrialKey& a, const TrialKey& b) {
  return a.kernel_hash == b.kernel_hash && a.problem == b.problem &&
         a.device_name == b.device_name && a.target == b.target && a.driver == b.driver &&
         a.compiler == b.compiler && a.cache_mode == b.cache_mode &&
         a.include_digest == b.include_digest;
}

std::vector<Trial> TrialsOf(const ShippedSweeps::Sweep& sweep) {
  std::vector<Trial> trials;
  for (const lookup::TimedConfig& one : sweep.Configs(sweep.rows.size())) {
    Trial trial{.config = one.config, .outcome = Outcome::kOk};
    trial.measurement.latency_ns_median = one.latency_ns_median;
    trials.push_back(std::move(trial));
  }
  return trials;
}

// Appends a source; false if nothing in it was ok.
bool Append(const std::vector<Trial>& trials, double trust, size_t observations_max,
            WarmStart& warm_start) {
  std::vector<const Trial*> order;
  size_t ok = 0;
  for (const Trial& trial : trials) {
    order.push_back(&trial);
    ok += trial.outcome == Outcome::kOk;
  }
  if (ok == 0) return false;
  // The fastest first, failures last.
  std::stable_sort(order.begin(), order.end(), [](const Trial* a, const Trial* b) {
    const auto rank = [](const Trial* trial) {
      return std::pair(trial->outcome != Outcome::kOk, trial->measurement.latency_ns_median);
    };
    return rank(a) < rank(b);
  });
  const double best_ns = order.front()->measurement.latency_ns_median;
  const double count = static_cast<double>(ok);
  order.resize(std::min(order.size(), observations_max));
  for (const Trial* trial : order) {
    PriorObservation observation{.config = trial->config,
                                 .outcome = trial->outcome,
                                 .source = static_cast<uint32_t>(warm_start.sources.size()),
                                 .weight = trust * count / (count + kHalfTrusted)};
    if (trial->outcome == Outcome::kOk) {
      observation.relative_latency = trial->measurement.latency_ns_median / best_ns;
    }
    warm_start.prior.push_back(std::move(observation));
  }
  return true;
}

// Recordings of another revision may have other params; their configs are then of no use.
absl::Status CheckParams(const v1::Config& config, const KernelSpec& spec) {
  if (static_cast<size_t>(config.entries_size()) > spec.params.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a config of ", config.entries_size(),
                                                   " values; ", spec.name, " has ",
                                                   spec.params.size(), " params"));
  }
  for (const v1::ConfigEntry& entry : config.entries()) {
    const auto is_it = [&](const ParamSpec& param) { return param.name == entry.param(); };
    if (std::any_of(spec.params.begin(), spec.params.end(), is_it)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        spec.name, " has no param '", Utf8(entry.param().substr(0, kSourceNameMax)), "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckPrior(const v1::Prior& prior, const KernelSpec& spec) {
  size_t observations = 0;
  for (const v1::Prior::Source& source : prior.sources()) {
    observations += source.observations_size();
    if (source.name().size() > kSourceNameMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("the name of a prior has more than ", kSourceNameMax, " characters"));
    }
    for (const v1::Prior::Observation& observation : source.observations()) {
      const bool ok = observation.outcome() == v1::OUTCOME_OK;
      const double ratio = observation.relative_latency();
      if (!v1::Outcome_IsValid(observation.outcome()) ||
          observation.outcome() == v1::OUTCOME_UNSPECIFIED ||
          (ok && !(std::isfinite(ratio) && ratio >= 1))) {
        return absl::InvalidArgumentError(
            absl::StrCat("prior ", source.name(), ": outcome ", observation.outcome(),
                         " with a relative latency of ", ratio, "; that is 1 or more"));
      }
      if (const absl::Status fits = CheckParams(observation.config(), spec); !fits.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("prior ", source.name(), ": ", fits.message()));
      }
    }
  }
  if (observations > kPriorObservationsMax || prior.sources_size() > kGivenSourcesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a prior of ", Counted(observations, "observation"), " from ",
                     Counted(prior.sources_size(), "source"), "; at most ", kPriorObservationsMax,
                     " from ", kGivenSourcesMax));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WarmStart> FromProto(const v1::Prior& prior, const KernelSpec& spec) {
  RETURN_IF_ERROR(CheckPrior(prior, spec));
  WarmStart warm_start;
  for (const v1::Prior::Source& source : prior.sources()) {
    for (const v1::Prior::Observation& observation : source.observations()) {
      const bool ok = observation.outcome() == v1::OUTCOME_OK;
      warm_start.prior.push_back({.config = FromProto(observation.config()),
                                  .outcome = static_cast<Outcome>(observation.outcome()),
                                  .relative_latency = ok ? observation.relative_latency() : 1,
                                  .source = static_cast<uint32_t>(warm_start.sources.size()),
                                  .weight = kTrustInRecordings});
    }
    warm_start.sources.push_back(source.name());
  }
  if (const size_t bytes = BytesOf(warm_start); bytes > kPriorBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a prior of ", bytes >> 20, " MiB; at most ",
                                                   kPriorBytesMax >> 20, ": send fewer configs"));
  }
  return warm_start;
}

size_t BytesOf(const WarmStart& warm_start) {
  size_t bytes = sizeof(warm_start) + warm_start.prior.capacity() * sizeof(PriorObservation);
  for (const std::string& source : warm_start.sources) bytes += sizeof(source) + source.capacity();
  for (const PriorObservation& observation : warm_start.prior) {
    const auto& entries = observation.config.entries;
    bytes += entries.capacity() * sizeof(entries[0]);
    for (const auto& [param, value] : entries) {
      if (param.capacity() >= sizeof(param)) bytes += param.capacity();
      if (const auto* const text = std::get_if<std::string>(&value)) bytes += text->capacity();
    }
  }
  return bytes;
}

std::vector<NearWinner> NearestWinners(const lookup::Index& index, const lookup::Query& query,
                                       const Space& space, size_t count) {
  std::vector<NearWinner> winners;
  std::set<uint64_t> seen;
  const auto is_new = [&](const lookup::Record& record) {
    const std::optional<uint64_t> config = space.IndexOf(record.trial.config);
    return config.has_value() && !seen.contains(*config);
  };
  while (winners.size() < count) {
    const lookup::Answer found = index.Lookup(query, is_new);
    if (found.match == lookup::Match::kNone) break;
    const lookup::Record& record = *found.record;
    winners.push_back(
        {.index = *space.IndexOf(record.trial.config),
         .source = absl::StrCat(ToText(record.key.problem), " on ", record.key.device_name,
                                IsShipped(record) ? " (its winner, shipped)" : " (its winner)")});
    seen.insert(winners.back().index);
  }
  return winners;
}

double TrustIn(const TrialKey& other, const TrialKey& key, const KernelSpec& spec) {
  if (&ProfileOfTarget(other.target) != &ProfileOfTarget(key.target)) return 0;
  double trust = 1 / (1 + Distance(other.problem, key.problem, spec) / 4);
  if (other.device_name != key.device_name) trust *= other.target == key.target ? 0.8 : 0.5;
  if (other.problem.dtype != key.problem.dtype) trust *= 0.7;
  const bool same_code =
      other.kernel_hash == key.kernel_hash && other.include_digest == key.include_digest;
  if (!same_code) trust *= 0.8;
  if (other.cache_mode != key.cache_mode) trust *= 0.9;
  return trust;
}

absl::StatusOr<WarmStart> GatherWarmStart(db::TrialStore& store, const ShippedSweeps& shipped,
                                          const std::string& kernel_name, const Kernel& kernel,
                                          const TrialKey& key, size_t observations_max) {
  ASSIGN_OR_RETURN(const std::vector<TrialKey> keys,
                   store.TrialKeysOfKernel(kernel_name, kKeysMax));
  struct Source {
    double trust = 0;
    const TrialKey* key = nullptr;
    const ShippedSweeps::Sweep* shipped = nullptr;  // null: the store's
  };
  std::vector<Source> trusted;
  const auto add = [&](const TrialKey& other, const ShippedSweeps::Sweep* sweep) {
    const double trust = TrustIn(other, key, kernel.spec());
    if (trust > 0 && !SameKey(other, key)) trusted.push_back({trust, &other, sweep});
  };
  for (const TrialKey& other : keys) add(other, nullptr);
  ASSIGN_OR_RETURN(const std::vector<ShippedSweeps::Sweep>* shipped_sweeps,
                   shipped.OfKernel(kernel_name));
  for (const ShippedSweeps::Sweep& sweep : *shipped_sweeps) add(sweep.key, &sweep);
  // Stable: of equals the newer comes first, as the store gives them, and what is ours.
  std::stable_sort(trusted.begin(), trusted.end(),
                   [](const Source& a, const Source& b) { return a.trust > b.trust; });
  WarmStart warm_start;
  for (const Source& source : trusted) {
    if (warm_start.sources.size() == kSourcesMax || warm_start.prior.size() >= observations_max) {
      break;
    }
    std::vector<Trial> trials;
    if (source.shipped != nullptr) {
      trials = TrialsOf(*source.shipped);
    } else {
      ASSIGN_OR_RETURN(trials, store.TrialsOfKey(*source.key));
    }
    const size_t left = observations_max - warm_start.prior.size();
    if (!Append(trials, source.trust, left, warm_start)) continue;
    warm_start.sources.push_back(absl::StrCat(
        ToText(source.key->problem), " on ", source.key->device_name, " (",
        Counted(trials.size(), "config"), source.shipped != nullptr ? ", shipped)" : ")"));
  }
  return warm_start;
}

}  // namespace tune::server
