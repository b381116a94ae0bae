// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/distributions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tune {
namespace {

constexpr double kTiny = 1e-300;
constexpr double kAccuracy = 1e-15;
constexpr int kTermsMax = 10000;
constexpr int kBisections = 200;

double KeptFromZero(double value) { return std::abs(value) < kTiny ? kTiny : value; }

// The continued fraction of I_x(a, b) by Lentz's method. Converges fast for
// x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  double c = 1;
  double d = 1 / KeptFromZero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= kTermsMax; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / KeptFromZero(1 + even * d);
    c = KeptFromZero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / KeptFromZero(1 + odd * d);
    c = KeptFromZero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < kAccuracy) break;
  }
  return fraction;
}

// The x in [low, high] where an increasing function reaches `wanted`.
double Invert(const std::function<double(double)>& function, double wanted, double low,
              double high) {
  for (int i = 0; i < kBisections && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (function(middle) < wanted ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

}  // namespace

double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double StudentCdf(double t, double degrees) {
  const double tail = IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double StudentQuantile(double probability, double degrees) {
  double reach = 1;
  while (StudentCdf(-reach, degrees) > std::min(probability, 1 - probability) && reach < 1e12) {
    reach *= 2;
  }
  return Invert([&](double t) { return StudentCdf(t, degrees); }, probability, -reach, reach);
}

ProportionBounds ClopperPearson(int64_t successes, int64_t trials, double confidence) {
  const auto good = static_cast<double>(successes);
  const auto bad = static_cast<double>(trials - successes);
  ProportionBounds bounds;
  if (successes > 0) {
    bounds.low =
        Invert([&](double p) { return IncompleteBeta(good, bad + 1, p); }, 1 - confidence, 0, 1);
  }
  if (successes < trials) {
    bounds.high =
        Invert([&](double p) { return IncompleteBeta(good + 1, bad, p); }, confidence, 0, 1);
  }
  return bounds;
}

}  // namespace tune
