// SPDX-License-Identifier: Apache-2.0
// Wilcoxon's signed-rank test, exact.
#pragma once

#include <vector>

namespace tune {

// P(W+ >= the observed sum of the positive differences' ranks) when each difference is as likely to
// be positive as negative. It is small when the differences tend to be positive. Source: Wilcoxon,
// 1945. The null distribution comes from counting subsets of the ranks, so it is exact for every
// number of differences.
//
// Differences that are zero say nothing and are left out, as Wilcoxon did. Equal sizes share the
// mean of their ranks. The null distribution is that of the shared ranks, so it is exact with ties,
// too. The least p of n differences is 2^-n. Returns 1 where no difference is left.
double SignedRankP(const std::vector<double>& differences);

}  // namespace tune
