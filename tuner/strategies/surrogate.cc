// SPDX-License-Identifier: Apache-2.0
#include "tuner/strategies/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tuner/strategies/acquisition.h"
#include "tuner/strategies/best_and_some.h"

namespace tune {
namespace {

// Before there is a model, configs far apart are tried: this many.
constexpr size_t kDesignPoints = 8;
constexpr size_t kDesignToldMin = 6;
constexpr size_t kDesignOkMin = 3;
// With a prior fewer are tried, and every other one is among its best. Latencies elsewhere are
// known only up to a factor, so the prior's best alone would not show whether the prior is good.
constexpr size_t kPriorPoints = 4;
constexpr size_t kPriorOkMin = 2;
constexpr size_t kPriorNear = 30;
constexpr size_t kPriorBest = 256;
constexpr double kSlopePrecision = 1;  // of the prior's slope, in units of the residual's variance
constexpr double kUnitMin = 1e-9;
// A space up to this size is predicted whole. In a larger one, a sample and the neighbours of the
// best configs are predicted.
constexpr uint64_t kWholeSpaceMax = 20'000;
constexpr size_t kSampleSize = 4'000;
constexpr size_t kNeighbourhoods = 8;
// A model of more points costs more than it gains. In a long search each trial is worth less, so
// that fewer points pay.
constexpr size_t kLongSearch = 400;
constexpr size_t kPointsMax = 320;
constexpr size_t kPointsMaxLong = 200;
constexpr size_t kFitPointsMax = 120;
constexpr int kClimbRounds = 4;
constexpr int kClimbRoundsLater = 2;  // from kFitPointsMax points on, when little changes

// How many results are waited for before the shape is fitted again.
size_t RefitEvery(size_t told) {
  if (told < 30) return 3;
  if (told < 100) return 10;
  if (told < 200) return 25;
  return told < kLongSearch ? 50 : 100;
}

}  // namespace

Surrogate::Surrogate(const StrategyInput& input)
    : Search(input),
      geometry_(input.space),
      prior_(input.space, geometry_, input.options.prior),
      shape_(PriorShape(geometry_)) {
  if (prior_.empty()) return;
  prior_best_ = prior_.Best(kPriorBest);
  prior_slope_ = 1;
}

Surrogate::~Surrogate() = default;

void Surrogate::Asked(uint64_t index) {
  point_of_[index] = points_.size();
  points_.push_back({.index = index, .digits = Digits(index)});
  Point& point = points_.back();
  if (!prior_.empty()) point.prior = prior_.LogRatio(index, point.digits).mean;
  if (model_ == nullptr) return;
  model_points_.push_back(points_.size() - 1);
  model_->AddPoint(point.digits);
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
  if (!prior_.empty()) return points_.size() >= kPriorPoints && ok_ >= kPriorOkMin;
  return points_.size() >= kDesignPoints && told_ >= kDesignToldMin && ok_ >= kDesignOkMin;
}

bool Surrogate::IsRefitDue() const {
  return model_ == nullptr || told_ >= told_at_refit_ + RefitEvery(told_at_refit_);
}

std::optional<uint64_t> Surrogate::Propose() {
  improvement_chance_.reset();
  if (!MayModel()) return Start();
  if (IsRefitDue()) Refit();
  return MostPromising();
}

std::optional<uint64_t> Surrogate::Start() {
  if (prior_best_.empty()) return Spread();
  const size_t start = starts_++;
  // Drawn at random, since the best of the prior and what is far from it are the same for every
  // seed.
  if (start == 1) return RandomUnknown();
  if (start % 2 == 1) return Spread();
  // Among the best of the prior, far apart. The second best is often next to the best, and as good
  // or as bad.
  if (!IsKnown(prior_best_.front())) return prior_best_.front();
  const size_t count = std::min(prior_best_.size(), kPriorNear + 4 * points_.size());
  return Farthest(absl::MakeConstSpan(prior_best_).subspan(0, count));
}

std::optional<uint64_t> Surrogate::Spread() {
  if (points_.empty()) return RandomUnknown();
  if (candidates_ == nullptr) RefreshCandidates();
  nearest_.resize(candidates_->size(), std::numeric_limits<float>::infinity());
  for (; spread_points_ < points_.size(); ++spread_points_) {
    candidates_->LowerToDistance(geometry_, points_[spread_points_].digits, nearest_);
  }
  std::optional<size_t> farthest;
  uint64_t ties = 0;
  for (size_t c = 0; c < nearest_.size(); ++c) {
    if (farthest.has_value() && nearest_[c] < nearest_[*farthest]) continue;
    if (IsKnown(candidates_->index(c))) continue;
    if (farthest.has_value() && nearest_[c] > nearest_[*farthest]) ties = 0;
    if (random().Below(++ties) == 0) farthest = c;
  }
  if (!farthest.has_value()) return std::nullopt;
  return candidates_->index(*farthest);
}

std::optional<uint64_t> Surrogate::Farthest(absl::Span<const uint64_t> of) {
  std::optional<uint64_t> farthest;
  double farthest_distance = -1;
  for (uint64_t index : of) {
    if (IsKnown(index)) continue;
    const std::vector<uint16_t>& digits = Digits(index);
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

void Surrogate::Thin(size_t count, std::vector<size_t>& points) {
  if (points.size() <= count) return;
  const auto value = [&](size_t i) {
    return points_[i].state == State::kOk ? points_[i].log_latency
                                          : std::numeric_limits<double>::infinity();
  };
  KeepBestAndSome(count, value, random(), points);
}

Surrogate::Columns Surrogate::ColumnsOf(const std::vector<size_t>& points) const {
  std::vector<double> sorted;
  for (size_t i : points) {
    if (points_[i].state == State::kOk) sorted.push_back(points_[i].log_latency);
  }
  std::sort(sorted.begin(), sorted.end());
  // Slow configs are many, and their times span orders of magnitude. One above the median counts as
  // at most as far from the median as the best is.
  const double median = sorted[sorted.size() / 2];
  double ceiling = 2 * median - sorted.front();
  if (!prior_.empty()) ceiling = std::max(ceiling, sorted.front() + kPriorCeiling);
  const double worst = std::min(ceiling, sorted.back());

  Columns columns;
  double sum = 0;
  double squares = 0;
  for (size_t i : points) {
    const Point& point = points_[i];
    if (point.state == State::kPending) {
      columns.values.emplace_back();
      columns.ones.emplace_back();
      columns.prior.emplace_back();
      continue;
    }
    const double value =
        (point.state == State::kOk ? std::min(point.log_latency, ceiling) : worst) - median;
    const double residual = value - prior_slope_ * point.prior;
    sum += residual;
    squares += residual * residual;
    ++columns.told;
    columns.values.emplace_back(value);
    columns.ones.emplace_back(1.0);
    columns.prior.emplace_back(point.prior);
  }
  const double mean = sum / static_cast<double>(columns.told);
  const double spread = squares / static_cast<double>(columns.told) - mean * mean;
  columns.unit = std::sqrt(std::max(spread, 0.0)) + kUnitMin;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!columns.values[i].has_value()) continue;
    columns.values[i] = (*columns.values[i] - mean) / columns.unit;
    columns.prior[i] = *columns.prior[i] / columns.unit;
  }
  columns.best_value = (sorted.front() - median - mean) / columns.unit;
  return columns;
}

Surrogate::Trend Surrogate::FitTrend(const Columns& columns) const {
  Trend trend;
  trend.residuals = model_->Whiten(columns.values);
  const std::vector<double> ones = model_->Whiten(columns.ones);
  const size_t size = ones.size();
  const double oo = Dot(ones.data(), ones.data(), size);
  const double ov = Dot(ones.data(), trend.residuals.data(), size);
  trend.level = ov / oo;
  if (!prior_.empty()) {
    // Least squares with the slope drawn to 1: what was so elsewhere is so here, until it is not.
    const std::vector<double> prior = model_->Whiten(columns.prior);
    const double pp = Dot(prior.data(), prior.data(), size) + kSlopePrecision;
    const double op = Dot(ones.data(), prior.data(), size);
    const double pv = Dot(prior.data(), trend.residuals.data(), size) + kSlopePrecision;
    trend.slope = std::max((oo * pv - op * ov) / (oo * pp - op * op), 0.0);
    trend.level = (ov - trend.slope * op) / oo;
    for (size_t i = 0; i < size; ++i) trend.residuals[i] -= trend.slope * prior[i];
  }
  for (size_t i = 0; i < size; ++i) trend.residuals[i] -= trend.level * ones[i];
  trend.variance =
      ProcessVariance(Dot(trend.residuals.data(), trend.residuals.data(), size), columns.told);
  return trend;
}

void Surrogate::WeighPrior() {
  std::vector<std::pair<uint64_t, double>> measured;
  for (const Point& point : points_) {
    if (point.state == State::kOk) measured.emplace_back(point.index, point.log_latency);
  }
  if (!prior_.Weigh(measured)) return;
  for (Point& point : points_) point.prior = prior_.LogRatio(point.index, point.digits).mean;
  prior_of_candidates_.clear();
}

void Surrogate::RefreshPrior() {
  if (prior_.empty() || prior_of_candidates_.size() == candidates_->size()) return;
  prior_of_candidates_.clear();
  for (uint64_t index : candidates_->indices()) {
    prior_of_candidates_.push_back(prior_.LogRatio(index, Digits(index)));
  }
}

void Surrogate::RefreshCandidates() {
  const bool whole = space().exact() && (space().size() <= kSampleSize ||
                                         (space().size() <= kWholeSpaceMax && told_ < kLongSearch));
  if (whole && candidates_ != nullptr) return;
  prior_of_candidates_.clear();
  candidates_ = std::make_unique<CandidateTable>(geometry_);
  if (whole) {
    for (uint64_t index = 0; index < space().size(); ++index) {
      candidates_->Add(geometry_, index, Digits(index));
    }
    return;
  }
  std::vector<uint64_t> indices;
  for (size_t i = 0; i < kSampleSize; ++i) indices.push_back(RandomConfig());
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
  WeighPrior();
  std::vector<size_t> pending;
  model_points_.clear();
  for (size_t i = 0; i < points_.size(); ++i) {
    (points_[i].state == State::kPending ? pending : model_points_).push_back(i);
  }
  Thin(told_ < kLongSearch ? kPointsMax : kPointsMaxLong, model_points_);
  FitShape(model_points_);
  // Pending points come last: each is taken to have the value that those before it predict.
  model_points_.insert(model_points_.end(), pending.begin(), pending.end());

  model_.reset();
  RefreshCandidates();
  RefreshPrior();
  model_ = std::make_unique<CandidateModel>(geometry_, *candidates_, shape_);
  for (size_t i : model_points_) model_->AddPoint(points_[i].digits);
}

void Surrogate::FitShape(std::vector<size_t> fitted) {
  Thin(kFitPointsMax, fitted);
  std::vector<std::vector<uint16_t>> digits;
  std::vector<double> values;
  const Columns columns = ColumnsOf(fitted);
  for (size_t i = 0; i < fitted.size(); ++i) {
    values.push_back(*columns.values[i] - prior_slope_ * *columns.prior[i]);
    digits.push_back(points_[fitted[i]].digits);
  }
  const int rounds = fitted.size() < kFitPointsMax ? kClimbRounds : kClimbRoundsLater;
  shape_ = ProcessFit(geometry_, digits, std::move(values)).Climb(shape_, rounds);
}

std::optional<uint64_t> Surrogate::MostPromising() {
  const Columns columns = ColumnsOf(model_points_);
  const Trend trend = FitTrend(columns);
  prior_slope_ = trend.slope;
  std::vector<float> means;
  model_->Combine(trend.residuals, means);
  const double slope = trend.slope / columns.unit;

  std::optional<size_t> chosen;
  double chosen_score = -std::numeric_limits<double>::infinity();
  const size_t candidates = candidates_->size();
  const size_t offset = random().Below(candidates);  // ties are broken at random
  for (size_t step = 0; step < candidates; ++step) {
    const size_t c = step + offset < candidates ? step + offset : step + offset - candidates;
    if (IsKnown(candidates_->index(c))) continue;
    const double left = std::max(1.0 - static_cast<double>(model_->explained()[c]), 1e-7);
    double mean = trend.level + means[c];
    double variance = trend.variance * left;
    if (!prior_.empty()) {
      mean += slope * prior_of_candidates_[c].mean;
      variance += slope * slope * prior_of_candidates_[c].variance;
    }
    const double deviation = std::sqrt(variance);
    const double z = (columns.best_value - mean) / deviation;
    // Far below, the improvement underflows, but z still ranks the candidates.
    const double score = z > -6 ? ExpectedImprovement(columns.best_value, mean, deviation) : z;
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
