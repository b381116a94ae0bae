// SPDX-License-Identifier: Apache-2.0
// The constraints of a space as one graph of typed terms over 64-bit words. A term can be computed
// for many assignments at once. A term that occurs twice is in the graph once. Internal to
// tuner/space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

namespace tune {

// A set of params, bit i for param i.
using ParamSet = uint64_t;
inline constexpr size_t kMaxSpaceParams = 64;
inline constexpr size_t kMaxSpaceValues = 65536;  // a digit is 16 bits

inline bool Has(ParamSet set, size_t param) { return (set >> param & 1) != 0; }

// An integer, a truth value (0 or 1), the number of a text, or the bits of a double.
using Word = int64_t;

// The integer or truth value that stands for what cannot be evaluated. For a float it is NaN.
inline constexpr Word kPoison = std::numeric_limits<Word>::min();

enum class TermType : uint8_t { kInteger, kReal, kText };

enum class TermOp : uint8_t {
  kConstant,  // `word`
  kParam,     // the value of `param`
  kDigit,     // the position of that value in the param's list
  kSum,       // of all `operands`, in any order; never fails
  kProduct,
  // Two integers.
  kAdd,
  kSubtract,
  kMultiply,
  kFloorDivide,
  kModulo,
  kPower,
  kShiftLeft,
  kShiftRight,
  kBitAnd,
  kBitXor,
  kBitOr,
  kMin,
  kMax,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  // An integer.
  kNegate,
  kInvert,
  kAbs,
  kTruth,
  kToReal,
  kIsOneOf,  // of the integers in sets[word]
  // Two floats.
  kRealAdd,
  kRealSubtract,
  kRealMultiply,
  kRealDivide,
  kRealFloorDivide,
  kRealModulo,
  kRealPower,
  kRealMin,
  kRealMax,
  kRealEqual,
  kRealNotEqual,
  kRealLess,
  kRealLessEqual,
  // A float.
  kRealNegate,
  kRealAbs,
  kRealTruth,
  kRealLog2,
  kRealSqrt,
  kTruncate,
  kRound,
  kFloor,
  kCeil,
  // Truth values; the second operand of kAnd and kOr counts only if the first does not decide.
  kNot,
  kAnd,
  kOr,
  kSelect,  // the second operand if the first is true, else the third
};

using TermId = uint32_t;

struct Term {
  TermOp op = TermOp::kConstant;
  TermType type = TermType::kInteger;
  bool is_truth = false;   // an integer that is 0 or 1
  bool mixed = false;      // a float that stands for an integer in some configs
  bool may_fail = false;   // it or an operand may be poison
  bool is_narrow = false;  // both operands are in [0, 2^31)
  uint32_t param = 0;
  Word word = 0;
  std::vector<TermId> operands;
  ParamSet params = 0;
  // Bounds of what it may be, poison apart.
  Word low = 0;
  Word high = 0;
  double real_low = 0;
  double real_high = 0;
};

// Terms in an order in which operands come first.
struct TermGraph {
  // The id of a term that says the same. If there is none, the term is added.
  TermId Intern(Term term);

  std::vector<Term> terms;
  std::vector<std::vector<Word>> sets;            // each sorted
  std::unordered_multimap<uint64_t, TermId> ids;  // by a hash of what a term says
};

// Sets from a term's operands its bounds, whether it may fail and whether it is a truth value.
// False if it cannot be a term. That is so if the integers that it stands for may not be exact
// floats, or if a sum or product of many may not fit a word in some order.
bool SetTermBounds(const TermGraph& graph, Term* term);

// The term's value for these operands. A binary term takes a and b, and a select takes all three.
Word ApplyTerm(const TermGraph& graph, const Term& term, Word a, Word b, Word c);

// An operand of many evaluations: a word for each evaluation, or one for all.
struct Column {
  const Word* words = nullptr;  // null: `constant`
  Word constant = 0;
};

// out[i] for all i < count. REQUIRES: an operator of one, two or three operands.
void ApplyTermToColumns(const TermGraph& graph, const Term& term, const Column& a, const Column& b,
                        const Column& c, size_t count, Word* out);

double RealOf(Word word);
Word WordOf(double real);

}  // namespace tune
