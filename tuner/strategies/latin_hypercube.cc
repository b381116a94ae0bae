// SPDX-License-Identifier: Apache-2.0
// Latin hypercube sampling: each value of each param is tried about equally often. A round has as
// many configs as the longest list has values. Source: McKay, Beckman, Conover, "A comparison of
// three methods for selecting values of input variables in the analysis of output from a computer
// code", Technometrics, 1979.
#include <utility>

#include "tuner/strategies/digit_search.h"

namespace tune {
namespace {

constexpr size_t kRoundMax = 64;  // configs; a list of thousands of values is sampled itself

class LatinHypercube : public DigitSearch {
 public:
  explicit LatinHypercube(const StrategyInput& input) : DigitSearch(input) {
    for (size_t param = 0; param < space().params().size(); ++param) {
      round_ = std::max(round_, std::min(space().radix(param), kRoundMax));
    }
  }

 private:
  std::optional<uint64_t> Propose() override {
    if (next_ == rows_.size()) Shuffle();
    return Repair(rows_[next_++]);
  }
  void Learned(const Observation&) override {}

  void Shuffle() {
    const size_t params = space().params().size();
    rows_.assign(round_, std::vector<int64_t>(params));
    next_ = 0;
    std::vector<size_t> strata(round_);
    for (size_t param = 0; param < params; ++param) {
      for (size_t i = 0; i < round_; ++i) strata[i] = i;
      for (size_t i = round_; i > 1; --i) std::swap(strata[i - 1], strata[random().Below(i)]);
      const auto radix = static_cast<double>(space().radix(param));
      for (size_t i = 0; i < round_; ++i) {
        const double place =
            (static_cast<double>(strata[i]) + random().Uniform()) / static_cast<double>(round_);
        rows_[i][param] = static_cast<int64_t>(place * radix);
      }
    }
  }

  size_t round_ = 1;
  size_t next_ = 0;
  std::vector<std::vector<int64_t>> rows_;
};

}  // namespace

std::unique_ptr<Strategy> MakeLatinHypercube(const StrategyInput& input) {
  return std::make_unique<LatinHypercube>(input);
}

}  // namespace tune
