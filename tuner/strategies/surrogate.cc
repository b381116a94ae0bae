// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tuner/stop_rules.h"
#include "tuner/strategies/acquisition.h"

namespace tune {
namespace {

// Before there is a model, configs far apart are tried: this many, of as many drawn for each.
constexpr size_t kDesignPoints = 8;
constexpr size_t kDesignToldMin = 6;
constexpr size_t kDesignOkMin = 3;
constexpr int kDesignDraws = 100;
// A space up to this size is predicted whole; of a larger one a sample is, and what is near the
// best.
constexpr uint64_t kWholeSpaceMax = 20'000;
constexpr size_t kSampleSize = 6'000;
constexpr size_t kNeighbourhoods = 8;
// A model of more points costs more than it gains.
constexpr size_t kPointsMax = 320;
constexpr size_t kFitPointsMax = 120;
constexpr int kClimbRounds = 4;

// How many results are waited for before the shape is fitted again.
size_t RefitEvery(size_t told) {
  if (told < 30) return 3;
  if (told < 100) return 10;
  return told < 400 ? 25 : 50;
}

}  // namespace

Surrogate::Surrogate(const StrategyInput& input)
    : Search(input), geometry_(input.space), shape_(PriorShape(geometry_)) {}

Surrogate::~Surrogate() = default;

void Surrogate::Asked(uint64_t index) {
  point_of_[index] = points_.size();
  points_.push_back({.index = index, .digits = Digits(index)});
  if (model_ == nullptr) return;
  model_points_.push_back(points_.size() - 1);
  model_->AddPoint(points_.back().digits);
}

void Surrogate::Learned(const Observation& observation) {
  if (!point_of_.contains(observation.index)) Asked(observation.index);
  Point& point = points_[point_of_[observation.index]];
  ++told_;
  if (observation.outcome != Outcome::kOk || observation.latency_ns <= 0) {
    point.state = State::kFailed;
    return;
  }
  ++ok_;
  point.state = State::kOk;
  point.log_latency = std::log(observation.latency_ns);
}

bool Surrogate::MayModel() const {
  return points_.size() >= kDesignPoints && told_ >= kDesignToldMin && ok_ >= kDesignOkMin;
}

bool Surrogate::IsRefitDue() const {
  return model_ == nullptr || told_ >= told_at_refit_ + RefitEvery(told_at_refit_);
}

std::optional<uint64_t> Surrogate::Propose() {
  improvement_chance_.reset();
  if (!MayModel()) return Spread();
  if (IsRefitDue()) Refit();
  return MostPromising();
}

std::optional<uint64_t> Surrogate::Spread() {
  std::optional<uint64_t> farthest;
  double farthest_distance = -1;
  for (int draw = 0; draw < (points_.empty() ? 1 : kDesignDraws); ++draw) {
    const std::optional<uint64_t> index = RandomUnknown();
    if (!index.has_value()) break;
    const std::vector<uint16_t>& digits = Digits(*index);
    double nearest = std::numeric_limits<double>::infinity();
    for (const Point& point : points_) {
      nearest = std::min(nearest, geometry_.Distance(digits, point.digits));
      if (nearest <= farthest_distance) break;
    }
    if (nearest > farthest_distance) {
      farthest_distance = nearest;
      farthest = index;
    }
  }
  return farthest;
}

std::vector<size_t> Surrogate::ActivePoints() {
  std::vector<size_t> active(points_.size());
  std::iota(active.begin(), active.end(), 0);
  // What is pending comes last: its value is taken to be what those before it predict.
  std::stable_partition(active.begin(), active.end(),
                        [&](size_t i) { return points_[i].state != State::kPending; });
  if (told_ <= kPointsMax) return active;
  const auto told_end = active.begin() + static_cast<std::ptrdiff_t>(told_);
  const auto value = [&](size_t i) {
    return points_[i].state == State::kOk ? points_[i].log_latency
                                          : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(active.begin(), told_end,
                   [&](size_t a, size_t b) { return value(a) < value(b); });
  // The best half of the model, and a sample of the rest.
  for (size_t i = kPointsMax / 2; i < kPointsMax; ++i) {
    std::swap(active[i], active[i + random().Below(told_ - i)]);
  }
  active.erase(active.begin() + kPointsMax, told_end);
  return active;
}

std::vector<std::optional<double>> Surrogate::ModelValues(const std::vector<size_t>& points) const {
  std::vector<double> sorted;
  for (size_t i : points) {
    if (points_[i].state == State::kOk) sorted.push_back(points_[i].log_latency);
  }
  std::sort(sorted.begin(), sorted.end());
  // Slow configs are many and their times span orders of magnitude: above the median they count
  // as no worse than the best is better.
  const double median = sorted[sorted.size() / 2];
  const double ceiling = 2 * median - sorted.front();
  const double worst = std::min(ceiling, sorted.back());
  double sum = 0;
  double squares = 0;
  double count = 0;
  std::vector<std::optional<double>> values;
  for (size_t i : points) {
    std::optional<double> value;
    if (points_[i].state == State::kOk) value = std::min(points_[i].log_latency, ceiling);
    if (points_[i].state == State::kFailed) value = worst;
    if (value.has_value()) {
      *value -= median;
      sum += *value;
      squares += *value * *value;
      ++count;
    }
    values.push_back(value);
  }
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(squares / count - mean * mean, 0.0)) + 1e-9;
  for (std::optional<double>& value : values) {
    if (value.has_value()) value = (*value - mean) / deviation;
  }
  return values;
}

void Surrogate::RefreshCandidates() {
  const bool whole = space().size() <= kWholeSpaceMax;
  if (whole && candidates_ != nullptr) return;
  candidates_ = std::make_unique<CandidateTable>(geometry_);
  if (whole) {
    for (uint64_t index = 0; index < space().size(); ++index) {
      candidates_->Add(geometry_, index, Digits(index));
    }
    return;
  }
  std::vector<uint64_t> indices;
  for (size_t i = 0; i < kSampleSize; ++i) indices.push_back(random().Below(space().size()));
  std::vector<const Point*> best;
  for (const Point& point : points_) {
    if (point.state == State::kOk) best.push_back(&point);
  }
  const size_t count = std::min(best.size(), kNeighbourhoods);
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count), best.end(),
                    [](const Point* a, const Point* b) { return a->log_latency < b->log_latency; });
  std::vector<uint64_t> neighbours;
  for (size_t i = 0; i < count; ++i) {
    space().Neighbours(best[i]->index, Neighbourhood::kHamming, neighbours);
    indices.insert(indices.end(), neighbours.begin(), neighbours.end());
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  for (uint64_t index : indices) candidates_->Add(geometry_, index, Digits(index));
}

void Surrogate::Refit() {
  told_at_refit_ = told_;
  model_points_ = ActivePoints();
  std::vector<size_t> fitted(model_points_.begin(),
                             model_points_.begin() +
                                 static_cast<std::ptrdiff_t>(std::min(told_, kPointsMax)));
  if (fitted.size() > kFitPointsMax) {
    const auto value = [&](size_t i) {
      return points_[i].state == State::kOk ? points_[i].log_latency
                                            : std::numeric_limits<double>::infinity();
    };
    std::stable_sort(fitted.begin(), fitted.end(),
                     [&](size_t a, size_t b) { return value(a) < value(b); });
    for (size_t i = kFitPointsMax / 2; i < kFitPointsMax; ++i) {
      std::swap(fitted[i], fitted[i + random().Below(fitted.size() - i)]);
    }
    fitted.resize(kFitPointsMax);
  }
  std::vector<std::vector<uint16_t>> digits;
  std::vector<double> values;
  for (const std::optional<double>& value : ModelValues(fitted)) values.push_back(*value);
  for (size_t i : fitted) digits.push_back(points_[i].digits);
  shape_ = ProcessFit(geometry_, digits, std::move(values)).Climb(shape_, kClimbRounds);

  model_.reset();
  RefreshCandidates();
  model_ = std::make_unique<CandidateModel>(geometry_, *candidates_, shape_);
  for (size_t i : model_points_) model_->AddPoint(points_[i].digits);
}

std::optional<uint64_t> Surrogate::MostPromising() {
  const std::vector<std::optional<double>> values = ModelValues(model_points_);
  std::vector<std::optional<double>> ones(values.size());
  double best_value = std::numeric_limits<double>::infinity();
  size_t told = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) continue;
    ones[i] = 1.0;
    ++told;
    if (points_[model_points_[i]].state == State::kOk) best_value = std::min(best_value, *values[i]);
  }
  std::vector<double> whitened = model_->Whiten(values);
  const std::vector<double> white_ones = model_->Whiten(ones);
  const size_t size = whitened.size();
  const double level = Dot(white_ones.data(), whitened.data(), size) /
                       Dot(white_ones.data(), white_ones.data(), size);
  for (size_t i = 0; i < size; ++i) whitened[i] -= level * white_ones[i];
  const double variance = ProcessVariance(Dot(whitened.data(), whitened.data(), size), told);
  std::vector<float> means;
  model_->Combine(whitened, means);

  std::optional<size_t> chosen;
  double chosen_score = -std::numeric_limits<double>::infinity();
  const size_t candidates = candidates_->size();
  const size_t offset = random().Below(candidates);  // ties are broken at random
  for (size_t step = 0; step < candidates; ++step) {
    const size_t c = step + offset < candidates ? step + offset : step + offset - candidates;
    if (IsKnown(candidates_->index(c))) continue;
    const double left = std::max(1.0 - static_cast<double>(model_->explained()[c]), 1e-7);
    const double deviation = std::sqrt(variance * left);
    const double mean = level + means[c];
    const double z = (best_value - mean) / deviation;
    // Far below, improvement underflows; the order of z goes on.
    const double score = z > -6 ? ExpectedImprovement(best_value, mean, deviation) : z;
    if (score > chosen_score) {
      chosen_score = score;
      chosen = c;
      improvement_chance_ = NormalBelow(z);
    }
  }
  if (!chosen.has_value()) return std::nullopt;
  return candidates_->index(*chosen);
}

std::unique_ptr<Strategy> MakeSurrogate(const StrategyInput& input) {
  return std::make_unique<Surrogate>(input);
}

}  // namespace tune
