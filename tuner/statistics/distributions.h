// SPDX-License-Identifier: Apache-2.0
// The few distribution functions that intervals and tests need.
#pragma once

#include <cstdint>

namespace tune {

// I_x(a, b), the regularised incomplete beta function, by its continued fraction (Abramowitz and
// Stegun 26.5.8, evaluated by Lentz's method). REQUIRES: a, b > 0 and 0 <= x <= 1.
double IncompleteBeta(double a, double b, double x);

// P(T <= t) of Student's distribution. REQUIRES: degrees > 0.
double StudentCdf(double t, double degrees);
// The t for which StudentCdf(t) is `probability`. REQUIRES: 0 < probability < 1.
double StudentQuantile(double probability, double degrees);

// The exact (Clopper-Pearson) interval of a proportion. Each bound is one-sided: with this
// confidence the true proportion is not below `low`, and with this confidence it is not above
// `high`.
struct ProportionBounds {
  double low = 0;
  double high = 1;
};
// REQUIRES: successes <= trials, trials > 0, 0 < confidence < 1.
ProportionBounds ClopperPearson(int64_t successes, int64_t trials, double confidence);

}  // namespace tune
