// SPDX-License-Identifier: Apache-2.0
// Which parameters of a space matter: how much of the spread of log latency each explains, alone
// and in pairs. The shares only describe. Configs of a search are no random sample of the space.
// Constraints tie parameters together, so shares overlap and need not add up.
#pragma once

#include <cstddef>
#include <vector>

namespace tune {

// Factors with levels 0, 1, ...; one response per observation.
struct Observations {
  std::vector<size_t> level_counts;         // by factor
  std::vector<std::vector<size_t>> levels;  // [factor][observation]
  std::vector<double> response;             // log latency
};

// Share of the variance that a factor explains by itself, in 0..1. It is adjusted for the number of
// levels, so that a factor of many levels does not win by chance (epsilon squared, Kelley 1935). 0
// with fewer than two levels seen or nothing left to explain.
double MainEffect(const Observations& observations, size_t factor);

// The share that all factors explain by an additive fit, adjusted alike; at least what one of them
// explains, where there are too few observations to fit all.
double AdditiveShare(const Observations& observations);

// The share that the cells of a pair explain beyond the additive fit of the two, adjusted, in 0..1.
double Interaction(const Observations& observations, size_t first, size_t second);

}  // namespace tune
