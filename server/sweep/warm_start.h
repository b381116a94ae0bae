// SPDX-License-Identifier: Apache-2.0
// Knowledge that a sweep can start from: trials of the same kernel on other shapes, devices and
// drivers, recordings that a client sent along, and the winners of other problems, from records
// alone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/trial_store.h"
#include "lookup/index.h"
#include "server/records/shipped_sweeps.h"
#include "tune/v1/sweep.pb.h"
#include "tuner/kernel/kernel.h"
#include "tuner/space/space.h"
#include "tuner/strategies/strategy.h"
#include "tuner/trial_key.h"

namespace tune::server {

inline constexpr size_t kPriorObservationsMax = 5000;
inline constexpr size_t kPriorBytesMax = size_t{32} << 20;  // in memory

struct WarmStart {
  std::vector<PriorObservation> prior;
  std::vector<std::string> sources;  // for people, the most trusted first
};

// INVALID_ARGUMENT: too many observations or bytes, invalid values, or a config with params that
// the kernel does not have.
absl::StatusOr<WarmStart> FromProto(const v1::Prior& prior, const KernelSpec& spec);

// The memory that a warm start takes.
size_t BytesOf(const WarmStart& warm_start);

// Gathers what the store has of the kernel under keys other than `key`, and sweeps that came with
// the program, the nearest first, at most `observations_max`. `kernel_name` has its name space:
// measurements in another name space do not count. Replayed sweeps are not in the store.
absl::StatusOr<WarmStart> GatherWarmStart(db::TrialStore& store, const ShippedSweeps& shipped,
                                          const std::string& kernel_name, const Kernel& kernel,
                                          const TrialKey& key, size_t observations_max);

struct NearWinner {
  uint64_t index = 0;  // of the config, in the space
  std::string source;  // for people
};

// The configs that look-ups would answer the query with if those before them did not exist: the
// nearest first, at most `count`. Shipped and imported records have no trials in the store, so a
// sweep learns only these configs from them.
std::vector<NearWinner> NearestWinners(const lookup::Index& index, const lookup::Query& query,
                                       const Space& space, size_t count);

// The weight, 0 to 1, of measurements of one key under another. 0 from the CPU to a GPU and back.
double TrustIn(const TrialKey& other, const TrialKey& key, const KernelSpec& spec);

}  // namespace tune::server
