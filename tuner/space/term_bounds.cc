// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic over terms. Terms that it shows never to fail are computed without checks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "tuner/space/term.h"

namespace tune {
namespace {

// An integer of twice the width, for bounds before they are known to fit.
__extension__ using Wide = __int128;

constexpr Word kMaxWord = std::numeric_limits<Word>::max();
constexpr double kMaxReal = std::numeric_limits<double>::max();
constexpr double kMaxExactReal = 9007199254740992.0;  // 2^53
// Sums and products of many stay below this in whatever order they are computed.
constexpr Wide kMaxChain = Wide{1} << 62;

void SetIntegers(Wide low, Wide high, Term* term) {
  const bool fits = low > Wide{kPoison} && high <= Wide{kMaxWord};
  term->may_fail |= !fits;
  term->low = fits ? static_cast<Word>(low) : -kMaxWord;
  term->high = fits ? static_cast<Word>(high) : kMaxWord;
}

void SetReals(double low, double high, Term* term) {
  const bool fits = std::isfinite(low) && std::isfinite(high);
  term->may_fail |= !fits;
  term->real_low = fits ? low : -kMaxReal;
  term->real_high = fits ? high : kMaxReal;
}

void SetTruth(Term* term) {
  term->is_truth = true;
  term->low = 0;
  term->high = 1;
}

Wide Magnitude(const Term& term) { return std::max(-Wide{term.low}, Wide{term.high}); }

// The bounds of a product, and of any other operator that takes its extremes where its operands do.
template <typename Number, typename Op>
std::pair<Number, Number> Corners(Number a_low, Number a_high, std::initializer_list<Number> others,
                                  Op op) {
  Number low = op(a_low, *others.begin());
  Number high = low;
  for (Number a : {a_low, a_high}) {
    for (Number b : others) {
      low = std::min(low, op(a, b));
      high = std::max(high, op(a, b));
    }
  }
  return {low, high};
}

bool SetChainBounds(const TermGraph& graph, Term* term) {
  const bool is_sum = term->op == TermOp::kSum;
  Wide low = is_sum ? 0 : 1;
  Wide high = low;
  Wide most = low;
  for (TermId id : term->operands) {
    const Term& operand = graph.terms[id];
    if (is_sum) {
      low += operand.low;
      high += operand.high;
      most += Magnitude(operand);
    } else {
      std::tie(low, high) = Corners<Wide>(low, high, {operand.low, operand.high},
                                          [](Wide a, Wide b) { return a * b; });
      most *= std::max(Magnitude(operand), Wide{1});
    }
    if (most > kMaxChain) return false;
  }
  SetIntegers(low, high, term);
  return true;
}

void SetFloorDivide(const Term& a, const Term& b, Term* term) {
  term->may_fail |= b.low <= 0 && b.high >= 0;
  // If the divisor's range holds zero, the quotient is largest for a divisor next to zero.
  auto clamp = [&](Wide divisor) {
    divisor = std::clamp(divisor, Wide{b.low}, Wide{b.high});
    return divisor == 0 ? Wide{1} : divisor;
  };
  const auto [low, high] = Corners<Wide>(
      a.low, a.high, {clamp(b.low), clamp(b.high), clamp(-1), clamp(1)}, [](Wide x, Wide y) {
        const Wide quotient = x / y;
        return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
      });
  SetIntegers(low, high, term);
}

void SetModulo(const Term& a, const Term& b, Term* term) {
  term->may_fail |= b.low <= 0 && b.high >= 0;
  term->low = b.low < 0 ? b.low + 1 : 0;
  term->high = b.high > 0 ? b.high - 1 : 0;
  if (a.low >= 0 && b.low >= 0) term->high = std::min(term->high, a.high);
}

void SetPower(const Term& a, const Term& b, Term* term) {
  term->may_fail |= b.low < 0;
  Wide most = 1;
  const Wide base = std::max(Magnitude(a), Wide{1});
  for (Word i = 0; i < b.high && base > 1 && most <= Wide{kMaxWord}; ++i) most *= base;
  SetIntegers(a.low >= 0 ? 0 : -most, most, term);
}

void SetShift(const Term& a, const Term& b, Term* term) {
  term->may_fail |= b.low < 0;
  if (term->op == TermOp::kShiftRight) {
    SetIntegers(std::min(a.low, Word{0}), std::max(a.high, Word{-1}), term);
    return;
  }
  const Wide factor = Wide{1} << std::clamp<Word>(b.high, 0, 63);
  SetIntegers(std::min(Wide{a.low}, a.low * factor), std::max(Wide{a.high}, a.high * factor), term);
}

void SetBits(const Term& a, const Term& b, Term* term) {
  const Wide most = std::max(Magnitude(a), Magnitude(b));
  const Wide power = most > (Wide{1} << 62)
                         ? Wide{1} << 63
                         : Wide{1} << std::bit_width(static_cast<uint64_t>(most));
  const bool is_and = term->op == TermOp::kBitAnd;
  const bool positive = is_and ? a.low >= 0 || b.low >= 0 : a.low >= 0 && b.low >= 0;
  SetIntegers(positive ? Wide{0} : -power, power - 1, term);
}

// Sets the bounds of a term of two integers.
void SetBinary(const Term& a, const Term& b, Term* term) {
  const Wide a_low = a.low;
  const Wide a_high = a.high;
  switch (term->op) {
    case TermOp::kAdd:
      return SetIntegers(a_low + b.low, a_high + b.high, term);
    case TermOp::kSubtract:
      return SetIntegers(a_low - b.high, a_high - b.low, term);
    case TermOp::kMultiply: {
      const auto [low, high] =
          Corners<Wide>(a_low, a_high, {b.low, b.high}, [](Wide x, Wide y) { return x * y; });
      return SetIntegers(low, high, term);
    }
    case TermOp::kFloorDivide:
      return SetFloorDivide(a, b, term);
    case TermOp::kModulo:
      return SetModulo(a, b, term);
    case TermOp::kPower:
      return SetPower(a, b, term);
    case TermOp::kShiftLeft:
    case TermOp::kShiftRight:
      return SetShift(a, b, term);
    case TermOp::kBitAnd:
    case TermOp::kBitXor:
    case TermOp::kBitOr:
      return SetBits(a, b, term);
    case TermOp::kMin:
      return SetIntegers(std::min(a.low, b.low), std::min(a.high, b.high), term);
    case TermOp::kMax:
      return SetIntegers(std::max(a.low, b.low), std::max(a.high, b.high), term);
    default:
      return SetTruth(term);
  }
}

// An integer of one operand.
void SetUnary(const Term& a, Term* term) {
  switch (term->op) {
    case TermOp::kNegate:
      return SetIntegers(-Wide{a.high}, -Wide{a.low}, term);
    case TermOp::kInvert:
      return SetIntegers(-Wide{a.high} - 1, -Wide{a.low} - 1, term);
    case TermOp::kAbs:
      return SetIntegers(a.low <= 0 && a.high >= 0
                             ? Wide{0}
                             : std::min(Magnitude(a), a.low > 0 ? Wide{a.low} : -Wide{a.high}),
                         Magnitude(a), term);
    case TermOp::kTruncate:
    case TermOp::kRound:
    case TermOp::kFloor:
    case TermOp::kCeil: {
      const bool fits = a.real_low > -0x1p62 && a.real_high < 0x1p62;
      term->may_fail |= !fits;
      term->low = fits ? static_cast<Word>(std::floor(a.real_low)) : -kMaxWord;
      term->high = fits ? static_cast<Word>(std::ceil(a.real_high)) : kMaxWord;
      return;
    }
    default:
      return SetTruth(term);
  }
}

void SetRealDivision(const Term& a, const Term& b, Term* term) {
  const bool crosses_zero = b.real_low <= 0 && b.real_high >= 0;
  term->may_fail |= crosses_zero;
  if (term->op == TermOp::kRealModulo) {
    return SetReals(std::min(b.real_low, 0.0), std::max(b.real_high, 0.0), term);
  }
  if (crosses_zero) return SetReals(-kMaxReal, kMaxReal, term);
  const auto [low, high] = Corners<double>(a.real_low, a.real_high, {b.real_low, b.real_high},
                                           [](double x, double y) { return x / y; });
  if (term->op == TermOp::kRealDivide) return SetReals(low, high, term);
  SetReals(std::floor(low) - 1, std::ceil(high) + 1, term);
}

void SetRealPower(const Term& a, const Term& b, Term* term) {
  if (a.real_low <= 0 && (a.real_low < 0 || b.real_low < 0)) {
    term->may_fail = true;
    return SetReals(-kMaxReal, kMaxReal, term);
  }
  const auto [low, high] = Corners<double>(a.real_low, a.real_high, {b.real_low, b.real_high},
                                           [](double x, double y) { return std::pow(x, y); });
  SetReals(low, high, term);
}

void SetRealBinary(const Term& a, const Term& b, Term* term) {
  switch (term->op) {
    case TermOp::kRealAdd:
      return SetReals(a.real_low + b.real_low, a.real_high + b.real_high, term);
    case TermOp::kRealSubtract:
      return SetReals(a.real_low - b.real_high, a.real_high - b.real_low, term);
    case TermOp::kRealMultiply: {
      const auto [low, high] = Corners<double>(a.real_low, a.real_high, {b.real_low, b.real_high},
                                               [](double x, double y) { return x * y; });
      return SetReals(low, high, term);
    }
    case TermOp::kRealPower:
      return SetRealPower(a, b, term);
    case TermOp::kRealMin:
      return SetReals(std::min(a.real_low, b.real_low), std::min(a.real_high, b.real_high), term);
    case TermOp::kRealMax:
      return SetReals(std::max(a.real_low, b.real_low), std::max(a.real_high, b.real_high), term);
    default:
      return SetRealDivision(a, b, term);
  }
}

// A float of one operand.
void SetRealUnary(const Term& a, Term* term) {
  switch (term->op) {
    case TermOp::kToReal:
      return SetReals(static_cast<double>(a.low), static_cast<double>(a.high), term);
    case TermOp::kRealNegate:
      return SetReals(-a.real_high, -a.real_low, term);
    case TermOp::kRealLog2:
      term->may_fail |= a.real_low <= 0;
      return SetReals(a.real_low > 0 ? std::log2(a.real_low) : -1100,
                      a.real_high > 0 ? std::log2(a.real_high) : 0, term);
    case TermOp::kRealSqrt:
      term->may_fail |= a.real_low < 0;
      return SetReals(std::sqrt(std::max(a.real_low, 0.0)), std::sqrt(std::max(a.real_high, 0.0)),
                      term);
    default:  // kRealAbs
      return SetReals(0, std::max(std::abs(a.real_low), std::abs(a.real_high)), term);
  }
}

void SetSelect(const Term& a, const Term& b, Term* term) {
  term->is_truth = a.is_truth && b.is_truth;
  term->low = std::min(a.low, b.low);
  term->high = std::max(a.high, b.high);
  term->real_low = std::min(a.real_low, b.real_low);
  term->real_high = std::max(a.real_high, b.real_high);
}

}  // namespace

bool SetTermBounds(const TermGraph& graph, Term* term) {
  auto operand = [&](size_t i) -> const Term& { return graph.terms[term->operands[i]]; };
  if (term->op == TermOp::kSum || term->op == TermOp::kProduct) return SetChainBounds(graph, term);
  if (term->op == TermOp::kSelect) {
    SetSelect(operand(1), operand(2), term);
  } else if (term->type == TermType::kReal) {
    if (term->operands.size() == 1) {
      SetRealUnary(operand(0), term);
    } else {
      SetRealBinary(operand(0), operand(1), term);
    }
  } else if (term->operands.size() == 1) {
    SetUnary(operand(0), term);
  } else {
    SetBinary(operand(0), operand(1), term);
  }
  return !term->mixed || (term->real_low >= -kMaxExactReal && term->real_high <= kMaxExactReal);
}

}  // namespace tune
