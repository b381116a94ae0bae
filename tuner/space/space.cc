// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/space.h"

#include <algorithm>
#include <cmath>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "tuner/space/diagnosis.h"
#include "tuner/space/solver.h"

namespace tune {
namespace {

// A second or two of work. The diagram takes 7 bytes an edge. It is made, level by level, from one
// that takes 6.
constexpr DiagramCost kLarge = {.work = 400'000'000, .bytes = 72 << 20, .edges = 6'000'000};
constexpr int kDeferrals = 6;
constexpr DiagramCost kSmall = {.work = 1'000'000, .bytes = 1 << 20, .edges = 64'000};
// For the estimate of a space too large to be known.
constexpr uint64_t kEstimateTries = 300'000;
constexpr uint64_t kEstimateHits = 2'000;
constexpr uint64_t kTriesBetweenAsks = 256;

// The finaliser of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A number below `size`. All are equally likely. Source: D. Lemire, "Fast random integer generation
// in an interval", ACM TOMACS, 2019.
uint64_t Below(uint64_t size, absl::FunctionRef<uint64_t()> random) {
  __extension__ using Wide = unsigned __int128;
  const uint64_t least = (0 - size) % size;
  while (true) {
    const Wide product = Wide{random()} * size;
    if (static_cast<uint64_t>(product) >= least) return static_cast<uint64_t>(product >> 64);
  }
}

}  // namespace

// The constraints that are checked config by config.
struct Space::Lazy {
  SpaceDefinition definition;  // what `compiled` points into
  CompiledSpace compiled;
  std::vector<size_t> conjuncts;
  mutable Mutex mutex;
  std::unique_ptr<ProgramRunner> runner ABSL_PT_GUARDED_BY(mutex);
  uint64_t some_valid = 0;        // the index of a valid config
  std::function<bool()> stopped;  // may be empty
};

absl::StatusOr<Space> Space::Build(const SpaceDefinition& definition, const SpaceEffort& effort) {
  const bool small = effort.size == SpaceEffort::Size::kSmall;
  ASSIGN_OR_RETURN(const std::unique_ptr<Solver> solver, Solver::Create(definition));
  const SolveLimits limits = {.diagram = {small ? kSmall : kLarge, effort.stopped},
                              .deferrals = small ? 0 : kDeferrals};
  absl::StatusOr<Solution> solved = solver->Solve(limits, [](size_t) { return true; });
  if (small && !absl::IsCancelled(solved.status()) && (!solved.ok() || solved->is_empty())) {
    return absl::AbortedError("the valid configs are not found with a small effort");
  }
  RETURN_IF_ERROR(solved.status());
  Solution& solution = *solved;
  if (solution.is_empty()) return NothingLeft(solver.get(), definition, effort.stopped);
  Space space;
  RETURN_IF_ERROR(space.Hold(definition.params, std::move(solution.components)));
  if (!solution.deferred.empty()) {
    auto lazy = std::make_shared<Lazy>();
    lazy->definition = definition;
    lazy->compiled = CompileSpace(lazy->definition);
    lazy->conjuncts = std::move(solution.deferred);
    lazy->runner = std::make_unique<ProgramRunner>(lazy->compiled);
    lazy->stopped = effort.stopped;
    space.lazy_ = lazy;
    RETURN_IF_ERROR(space.CountLazily(lazy.get(), effort));
  }
  return space;
}

absl::Status Space::Hold(std::vector<SpaceParam> params, std::vector<Diagram> components) {
  params_ = std::move(params);
  components_ = std::move(components);
  places_.resize(params_.size());
  strides_.resize(components_.size());
  size_ = 1;
  for (size_t i = components_.size(); i-- > 0;) {
    const Diagram& component = components_[i];
    strides_[i] = size_;
    if (component.count() > (uint64_t{1} << 62) / size_) {
      return absl::ResourceExhaustedError(
          "there are more than 2^62 valid configs: give the params fewer values");
    }
    size_ *= component.count();
    for (size_t level = 0; level < component.levels().size(); ++level) {
      places_[component.levels()[level].param] = {i, level};
    }
  }
  valid_count_ = static_cast<double>(size_);
  return absl::OkStatus();
}

absl::Status Space::CountLazily(Lazy* lazy, const SpaceEffort& effort) {
  uint64_t state = 0;
  uint64_t tries = 0;
  uint64_t hits = 0;
  while (tries < kEstimateTries && hits < kEstimateHits) {
    const uint64_t index = Below(size_, [&] { return Mix(state += 0x9e3779b97f4a7c15); });
    if (tries % kTriesBetweenAsks == 0 && effort.stopped && effort.stopped()) {
      return absl::CancelledError("cancelled while the valid configs were being estimated");
    }
    ++tries;
    if (!Contains(index)) continue;
    ++hits;
    lazy->some_valid = index;
  }
  if (hits == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the space is too large to be searched, and none of ", tries,
        " configs tried is valid: give the params fewer values, or add constraints over fewer "
        "params each"));
  }
  const double share = static_cast<double>(hits) / static_cast<double>(tries);
  valid_count_ = share * static_cast<double>(size_);
  valid_count_error_ = std::sqrt((1 - share) / static_cast<double>(hits));
  return absl::OkStatus();
}

uint64_t Space::SomeValid() const { return lazy_ == nullptr ? 0 : lazy_->some_valid; }

bool Space::Holds(absl::Span<const uint16_t> digits) const {
  if (lazy_ == nullptr) return true;
  MutexLock lock(lazy_->mutex);
  return std::all_of(lazy_->conjuncts.begin(), lazy_->conjuncts.end(),
                     [&](size_t conjunct) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lazy_->mutex) {
                       return lazy_->runner->Decide(conjunct, digits) == Verdict::kTrue;
                     });
}

bool Space::Contains(uint64_t index) const {
  if (lazy_ == nullptr) return true;
  absl::InlinedVector<uint16_t, kMaxSpaceParams> digits(params_.size());
  DigitsAt(index, absl::MakeSpan(digits));
  return Holds(digits);
}

Config Space::At(uint64_t index) const {
  absl::InlinedVector<uint16_t, kMaxSpaceParams> digits(params_.size());
  DigitsAt(index, absl::MakeSpan(digits));
  Config config;
  config.entries.reserve(params_.size());
  for (size_t i = 0; i < params_.size(); ++i) {
    config.entries.emplace_back(params_[i].name, params_[i].values[digits[i]]);
  }
  return config;
}

void Space::DigitsAt(uint64_t index, absl::Span<uint16_t> digits) const {
  for (size_t i = 0; i < components_.size(); ++i) {
    const uint64_t rank = index / strides_[i];
    index -= rank * strides_[i];
    components_[i].DigitsAt(rank, digits);
  }
}

std::vector<uint16_t> Space::DigitsAt(uint64_t index) const {
  std::vector<uint16_t> digits(params_.size());
  DigitsAt(index, absl::MakeSpan(digits));
  return digits;
}

void Space::DigitsOf(uint64_t first, uint64_t count, absl::Span<uint16_t> rows) const {
  if (count == 0) return;
  const size_t width = params_.size();
  absl::InlinedVector<uint16_t, kMaxSpaceParams> digits(width);
  std::vector<DiagramCursor> cursors;
  for (size_t i = 0; i < components_.size(); ++i) {
    const uint64_t rank = first / strides_[i] % components_[i].count();
    cursors.emplace_back(components_[i], rank, absl::MakeSpan(digits));
  }
  for (uint16_t* row = rows.data(); true; row += width) {
    std::copy_n(digits.data(), width, row);
    if (--count == 0) return;
    size_t component = cursors.size();
    while (component > 0 && !cursors[component - 1].Next(absl::MakeSpan(digits))) --component;
  }
}

std::optional<uint64_t> Space::IndexOf(const Config& config) const {
  if (config.entries.size() != params_.size()) return std::nullopt;
  absl::InlinedVector<uint16_t, kMaxSpaceParams> digits;
  for (size_t i = 0; i < params_.size(); ++i) {
    const SpaceParam& param = params_[i];
    const auto& [name, value] = config.entries[i];
    const auto it = std::find(param.values.begin(), param.values.end(), value);
    if (name != param.name || it == param.values.end()) return std::nullopt;
    digits.push_back(static_cast<uint16_t>(it - param.values.begin()));
  }
  return IndexOfDigits(digits);
}

std::optional<uint64_t> Space::IndexOfDigits(absl::Span<const uint16_t> digits) const {
  if (digits.size() != params_.size()) return std::nullopt;
  uint64_t index = 0;
  for (size_t i = 0; i < components_.size(); ++i) {
    const std::optional<uint64_t> rank = components_[i].RankOf(digits);
    if (!rank.has_value()) return std::nullopt;
    index += *rank * strides_[i];
  }
  if (!Holds(digits)) return std::nullopt;
  return index;
}

void Space::Neighbours(uint64_t index, Neighbourhood neighbourhood,
                       std::vector<uint64_t>& out) const {
  out.clear();
  absl::InlinedVector<uint16_t, kMaxSpaceParams> digits(params_.size());
  DigitsAt(index, absl::MakeSpan(digits));
  const bool adjacent = neighbourhood == Neighbourhood::kAdjacent;
  for (const Place& place : places_) {
    const Diagram& component = components_[place.component];
    const uint64_t stride = strides_[place.component];
    const uint64_t own = index / stride % component.count() * stride;
    component.Neighbours(digits, place.level, adjacent, [&](uint64_t rank) {
      const uint64_t found = index - own + rank * stride;
      if (Contains(found)) out.push_back(found);
    });
  }
}

uint64_t Space::Sample(absl::FunctionRef<uint64_t()> random) const {
  if (lazy_ == nullptr) return Below(size_, random);
  // The estimate found valid configs, so this loop finds one too. By bad luck, or if it is stopped,
  // it ends with one that the estimate found.
  for (uint64_t tries = 0; tries < 100 * kEstimateTries; ++tries) {
    if (tries % kTriesBetweenAsks == kTriesBetweenAsks - 1 && lazy_->stopped && lazy_->stopped()) {
      break;
    }
    const uint64_t index = Below(size_, random);
    if (Contains(index)) return index;
  }
  return lazy_->some_valid;
}

std::vector<uint64_t> Space::ValueCounts(size_t i) const {
  const Diagram& component = components_[places_[i].component];
  std::vector<uint64_t> counts = component.DigitCounts(places_[i].level, radix(i));
  for (uint64_t& count : counts) count *= size_ / component.count();
  return counts;
}

std::vector<Space::Component> Space::components() const {
  std::vector<Component> result;
  for (const Diagram& diagram : components_) {
    Component component = {.count = diagram.count()};
    for (const Diagram::Level& level : diagram.levels()) component.params.push_back(level.param);
    std::sort(component.params.begin(), component.params.end());
    result.push_back(std::move(component));
  }
  return result;
}

size_t Space::bytes() const {
  size_t bytes = 0;
  for (const Diagram& diagram : components_) bytes += diagram.bytes();
  return bytes;
}

}  // namespace tune
