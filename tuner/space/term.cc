// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/term.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace tune {
namespace {

Word FloorDivide(Word left, Word right) {
  const Word quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Word FloorModulo(Word left, Word right) {
  const Word remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

double FloorModulo(double left, double right) {
  const double remainder = std::fmod(left, right);
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

double FloorDivide(double left, double right) {
  return std::round((left - FloorModulo(left, right)) / right);
}

// REQUIRES: exponent >= 0.
Word Power(Word base, Word exponent) {
  Word power = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) return kPoison;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return kPoison;
  }
  return power;
}

Word ShiftLeft(Word left, Word right) {
  Word value = 0;
  if (right < 0) return kPoison;
  if (left == 0) return 0;
  if (right > 62 || __builtin_mul_overflow(left, Word{1} << right, &value)) return kPoison;
  return value;
}

Word WholeOf(double real) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  return real > -kTwoTo63 && real < kTwoTo63 ? static_cast<Word>(real) : kPoison;
}

bool TakesReals(TermOp op) { return op >= TermOp::kRealAdd && op <= TermOp::kCeil; }

// Integers that may fail; none of the operands is poison.
Word ApplyInteger(TermOp op, Word a, Word b) {
  Word value = 0;
  switch (op) {
    case TermOp::kAdd:
      return __builtin_add_overflow(a, b, &value) ? kPoison : value;
    case TermOp::kSubtract:
      return __builtin_sub_overflow(a, b, &value) ? kPoison : value;
    case TermOp::kMultiply:
      return __builtin_mul_overflow(a, b, &value) ? kPoison : value;
    case TermOp::kFloorDivide:
      return b == 0 ? kPoison : FloorDivide(a, b);
    case TermOp::kModulo:
      return b == 0 ? kPoison : FloorModulo(a, b);
    case TermOp::kPower:
      return b < 0 ? kPoison : Power(a, b);
    case TermOp::kShiftLeft:
      return ShiftLeft(a, b);
    case TermOp::kShiftRight:
      return b < 0 ? kPoison : a >> std::min<Word>(b, 63);
    case TermOp::kBitAnd:
      return a & b;
    case TermOp::kBitXor:
      return a ^ b;
    case TermOp::kBitOr:
      return a | b;
    case TermOp::kMin:
      return std::min(a, b);
    case TermOp::kMax:
      return std::max(a, b);
    case TermOp::kEqual:
      return a == b ? 1 : 0;
    case TermOp::kNotEqual:
      return a != b ? 1 : 0;
    case TermOp::kLess:
      return a < b ? 1 : 0;
    case TermOp::kLessEqual:
      return a <= b ? 1 : 0;
    case TermOp::kNegate:
      return -a;
    case TermOp::kInvert:
      return ~a;
    case TermOp::kAbs:
      return a < 0 ? -a : a;
    case TermOp::kTruth:
      return a != 0 ? 1 : 0;
    default:
      return kPoison;
  }
}

// Floats; none of the operands is NaN. A result that is not finite has failed.
Word ApplyReal(TermOp op, double a, double b) {
  auto finite = [](double value) {
    return WordOf(std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN());
  };
  constexpr double kFailed = std::numeric_limits<double>::quiet_NaN();
  switch (op) {
    case TermOp::kRealAdd:
      return finite(a + b);
    case TermOp::kRealSubtract:
      return finite(a - b);
    case TermOp::kRealMultiply:
      return finite(a * b);
    case TermOp::kRealDivide:
      return finite(b == 0 ? kFailed : a / b);
    case TermOp::kRealFloorDivide:
      return finite(b == 0 ? kFailed : FloorDivide(a, b));
    case TermOp::kRealModulo:
      return finite(b == 0 ? kFailed : FloorModulo(a, b));
    case TermOp::kRealPower:
      return finite(a == 0 && b < 0 ? kFailed : std::pow(a, b));
    case TermOp::kRealMin:
      return WordOf(b < a ? b : a);
    case TermOp::kRealMax:
      return WordOf(b > a ? b : a);
    case TermOp::kRealEqual:
      return a == b ? 1 : 0;
    case TermOp::kRealNotEqual:
      return a != b ? 1 : 0;
    case TermOp::kRealLess:
      return a < b ? 1 : 0;
    case TermOp::kRealLessEqual:
      return a <= b ? 1 : 0;
    case TermOp::kRealNegate:
      return WordOf(-a);
    case TermOp::kRealAbs:
      return WordOf(a < 0 ? -a : a);
    case TermOp::kRealTruth:
      return a != 0 ? 1 : 0;
    case TermOp::kRealLog2:
      return finite(a <= 0 ? kFailed : std::log2(a));
    case TermOp::kRealSqrt:
      return finite(a < 0 ? kFailed : std::sqrt(a));
    case TermOp::kTruncate:
      return WholeOf(std::trunc(a));
    case TermOp::kRound:
      return WholeOf(std::nearbyint(a));
    case TermOp::kFloor:
      return WholeOf(std::floor(a));
    case TermOp::kCeil:
      return WholeOf(std::ceil(a));
    default:
      return kPoison;
  }
}

template <typename Op>
void Loop(const Column& a, const Column& b, size_t count, Word* out, Op op) {
  if (a.words == nullptr) {
    const Word x = a.constant;
    for (size_t i = 0; i < count; ++i) out[i] = op(x, b.words[i]);
  } else if (b.words == nullptr) {
    const Word y = b.constant;
    for (size_t i = 0; i < count; ++i) out[i] = op(a.words[i], y);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = op(a.words[i], b.words[i]);
  }
}

// Runs the operators that constraints are mostly made of, where nothing can fail. False if it is
// none of these operators.
bool ApplyFast(const Term& term, const Column& a, const Column& b, size_t count, Word* out) {
  switch (term.op) {
    case TermOp::kAdd:
      Loop(a, b, count, out, [](Word x, Word y) { return x + y; });
      return true;
    case TermOp::kSubtract:
      Loop(a, b, count, out, [](Word x, Word y) { return x - y; });
      return true;
    case TermOp::kMultiply:
      Loop(a, b, count, out, [](Word x, Word y) { return x * y; });
      return true;
    case TermOp::kModulo:
      if (!term.is_narrow) return false;
      Loop(a, b, count, out, [](Word x, Word y) -> Word {
        return static_cast<uint32_t>(x) % static_cast<uint32_t>(y);
      });
      return true;
    case TermOp::kFloorDivide:
      if (!term.is_narrow) return false;
      Loop(a, b, count, out, [](Word x, Word y) -> Word {
        return static_cast<uint32_t>(x) / static_cast<uint32_t>(y);
      });
      return true;
    case TermOp::kEqual:
      Loop(a, b, count, out, [](Word x, Word y) -> Word { return x == y ? 1 : 0; });
      return true;
    case TermOp::kNotEqual:
      Loop(a, b, count, out, [](Word x, Word y) -> Word { return x != y ? 1 : 0; });
      return true;
    case TermOp::kLess:
      Loop(a, b, count, out, [](Word x, Word y) -> Word { return x < y ? 1 : 0; });
      return true;
    case TermOp::kLessEqual:
      Loop(a, b, count, out, [](Word x, Word y) -> Word { return x <= y ? 1 : 0; });
      return true;
    case TermOp::kAnd:
      Loop(a, b, count, out, [](Word x, Word y) { return x & y; });
      return true;
    case TermOp::kOr:
      Loop(a, b, count, out, [](Word x, Word y) { return x | y; });
      return true;
    case TermOp::kRealDivide:
      Loop(a, b, count, out, [](Word x, Word y) { return WordOf(RealOf(x) / RealOf(y)); });
      return true;
    case TermOp::kRealMultiply:
      Loop(a, b, count, out, [](Word x, Word y) { return WordOf(RealOf(x) * RealOf(y)); });
      return true;
    case TermOp::kRealEqual:
      Loop(a, b, count, out, [](Word x, Word y) -> Word { return RealOf(x) == RealOf(y) ? 1 : 0; });
      return true;
    case TermOp::kRealLessEqual:
      Loop(a, b, count, out, [](Word x, Word y) -> Word { return RealOf(x) <= RealOf(y) ? 1 : 0; });
      return true;
    default:
      return false;
  }
}

}  // namespace

TermId TermGraph::Intern(Term term) {
  uint64_t hash = static_cast<uint64_t>(term.op) << 8 | static_cast<uint64_t>(term.type);
  auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  mix(term.param);
  mix(static_cast<uint64_t>(term.word));
  for (TermId operand : term.operands) mix(operand);
  const auto [begin, end] = ids.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Term& other = terms[it->second];
    if (other.op == term.op && other.word == term.word && other.param == term.param &&
        other.type == term.type && other.operands == term.operands) {
      return it->second;
    }
  }
  const TermId id = static_cast<TermId>(terms.size());
  ids.emplace(hash, id);
  terms.push_back(std::move(term));
  return id;
}

double RealOf(Word word) { return std::bit_cast<double>(word); }
Word WordOf(double real) { return std::bit_cast<Word>(real); }

Word ApplyTerm(const TermGraph& graph, const Term& term, Word a, Word b, Word c) {
  switch (term.op) {
    case TermOp::kNot:
      return a == kPoison ? kPoison : 1 - a;
    case TermOp::kAnd:
      return a == 1 ? b : a;
    case TermOp::kOr:
      return a == 0 ? b : a;
    case TermOp::kSelect: {
      const Word failed =
          term.type == TermType::kReal ? WordOf(std::numeric_limits<double>::quiet_NaN()) : kPoison;
      return a == kPoison ? failed : a != 0 ? b : c;
    }
    case TermOp::kIsOneOf: {
      const std::vector<Word>& set = graph.sets[static_cast<size_t>(term.word)];
      if (a == kPoison) return kPoison;
      return std::binary_search(set.begin(), set.end(), a) ? 1 : 0;
    }
    case TermOp::kToReal:
      return WordOf(a == kPoison ? std::numeric_limits<double>::quiet_NaN()
                                 : static_cast<double>(a));
    default:
      break;
  }
  const bool is_unary = term.operands.size() == 1;
  if (!TakesReals(term.op)) {
    if (a == kPoison || (!is_unary && b == kPoison)) return kPoison;
    return ApplyInteger(term.op, a, b);
  }
  const double x = RealOf(a);
  const double y = is_unary ? 0 : RealOf(b);
  if (std::isnan(x) || std::isnan(y)) {
    return term.type == TermType::kReal ? WordOf(std::numeric_limits<double>::quiet_NaN())
                                        : kPoison;
  }
  return ApplyReal(term.op, x, y);
}

void ApplyTermToColumns(const TermGraph& graph, const Term& term, const Column& a, const Column& b,
                        const Column& c, size_t count, Word* out) {
  const bool both_constant = a.words == nullptr && b.words == nullptr;
  if (!term.may_fail && !both_constant && ApplyFast(term, a, b, count, out)) return;
  auto at = [](const Column& column, size_t i) {
    return column.words == nullptr ? column.constant : column.words[i];
  };
  for (size_t i = 0; i < count; ++i) {
    out[i] = ApplyTerm(graph, term, at(a, i), at(b, i), at(c, i));
  }
}

}  // namespace tune
