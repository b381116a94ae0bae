// SPDX-License-Identifier: Apache-2.0
// Wilcoxon's signed-rank test, exact.
#pragma once

#include <vector>

namespace tune {

// P(W+ >= the observed sum of the positive differences' ranks) when each difference is as likely to
// be positive as negative: small when the differences tend to be positive. Wilcoxon 1945; the null
// distribution by counting subsets of the ranks, so it is exact for every number of differences.
//
// Differences that are zero say nothing and are left out, as Wilcoxon did. Equal sizes share the
// mean of their ranks, and the null distribution is the one of those shared ranks, so ties do not
// make it approximate either. The least p of n differences is 2^-n. Returns 1 where none is left.
double SignedRankP(const std::vector<double>& differences);

}  // namespace tune
