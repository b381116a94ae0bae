// SPDX-License-Identifier: Apache-2.0
#include "tuner/expression/operators.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune {
namespace {

constexpr int64_t kMinInteger = std::numeric_limits<int64_t>::min();

bool Fail(std::string* error, std::string message) {
  *error = std::move(message);
  return false;
}

bool Overflow(std::string* error) { return Fail(error, "integer overflow"); }

bool FiniteReal(double value, Cell* result, std::string* error) {
  if (!std::isfinite(value)) return Fail(error, "result is not a finite number");
  *result = Cell::Real(value);
  return true;
}

absl::string_view Symbol(BinaryOp op) {
  static constexpr std::array<absl::string_view, 12> kSymbols = {"+",  "-",  "*",  "/", "//", "%",
                                                                 "**", "<<", ">>", "&", "^",  "|"};
  return kSymbols[static_cast<size_t>(op)];
}

absl::string_view Symbol(CompareOp op) {
  static constexpr std::array<absl::string_view, 8> kSymbols = {
      "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

// Rounds towards minus infinity. REQUIRES: right != 0 and no overflow.
int64_t FloorDivide(int64_t left, int64_t right) {
  int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

// Has the sign of `right`. REQUIRES: right != 0.
int64_t FloorModulo(int64_t left, int64_t right) {
  if (right == -1) return 0;
  int64_t remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

double FloorModulo(double left, double right) {
  double remainder = std::fmod(left, right);
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

bool IntegerPower(int64_t base, int64_t exponent, Cell* result, std::string* error) {
  if (exponent < 0) {
    if (base == 0) return Fail(error, "division by zero");
    return FiniteReal(std::pow(static_cast<double>(base), static_cast<double>(exponent)), result,
                      error);
  }
  int64_t power = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) return Overflow(error);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow(error);
  }
  *result = Cell::Integer(power);
  return true;
}

bool Shift(BinaryOp op, int64_t left, int64_t right, Cell* result, std::string* error) {
  if (right < 0) return Fail(error, "negative shift count");
  if (op == BinaryOp::kShiftRight) {
    *result = Cell::Integer(left >> std::min<int64_t>(right, 63));
    return true;
  }
  int64_t value = 0;
  if (left != 0 && (right > 62 || __builtin_mul_overflow(left, int64_t{1} << right, &value))) {
    return Overflow(error);
  }
  *result = Cell::Integer(value);
  return true;
}

bool IntegerBinary(BinaryOp op, int64_t left, int64_t right, Cell* result, std::string* error) {
  int64_t value = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(left, right, &value)) return Overflow(error);
      break;
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(left, right, &value)) return Overflow(error);
      break;
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(left, right, &value)) return Overflow(error);
      break;
    case BinaryOp::kDivide:
      if (right == 0) return Fail(error, "division by zero");
      *result = Cell::Real(static_cast<double>(left) / static_cast<double>(right));
      return true;
    case BinaryOp::kFloorDivide:
      if (right == 0) return Fail(error, "division by zero");
      if (left == kMinInteger && right == -1) return Overflow(error);
      value = FloorDivide(left, right);
      break;
    case BinaryOp::kModulo:
      if (right == 0) return Fail(error, "division by zero");
      value = FloorModulo(left, right);
      break;
    case BinaryOp::kPower:
      return IntegerPower(left, right, result, error);
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
      return Shift(op, left, right, result, error);
    case BinaryOp::kBitAnd:
      value = left & right;
      break;
    case BinaryOp::kBitXor:
      value = left ^ right;
      break;
    case BinaryOp::kBitOr:
      value = left | right;
      break;
  }
  *result = Cell::Integer(value);
  return true;
}

bool RealBinary(BinaryOp op, double left, double right, Cell* result, std::string* error) {
  const bool divides =
      op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && right == 0) return Fail(error, "division by zero");
  switch (op) {
    case BinaryOp::kAdd:
      return FiniteReal(left + right, result, error);
    case BinaryOp::kSubtract:
      return FiniteReal(left - right, result, error);
    case BinaryOp::kMultiply:
      return FiniteReal(left * right, result, error);
    case BinaryOp::kDivide:
      return FiniteReal(left / right, result, error);
    case BinaryOp::kFloorDivide:
      // Through the remainder, as Python does: 1.0 // 0.1 is 9, not floor(10.000...).
      return FiniteReal(std::round((left - FloorModulo(left, right)) / right), result, error);
    case BinaryOp::kModulo:
      return FiniteReal(FloorModulo(left, right), result, error);
    case BinaryOp::kPower:
      if (left == 0 && right < 0) return Fail(error, "division by zero");
      return FiniteReal(std::pow(left, right), result, error);
    default:
      return false;
  }
}

bool Concatenate(const Cell& left, const Cell& right, Arena* arena, Cell* result,
                 std::string* error) {
  if (left.kind == Cell::Kind::kText) {
    if (left.text->size() + right.text->size() > kMaxTextLength) {
      return Fail(error, absl::StrCat("text is longer than ", kMaxTextLength, " characters"));
    }
    *result = Cell::Text(arena->Keep(*left.text + *right.text));
    return true;
  }
  std::vector<Cell> items = *left.list;
  items.insert(items.end(), right.list->begin(), right.list->end());
  return MakeList(items.data(), items.size(), arena, result, error);
}

// -1, 0 or 1. Exact: an integer beyond 2^53 is not rounded to compare it with a float.
int CompareNumbers(const Cell& left, const Cell& right) {
  auto sign = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (left.is_integral() && right.is_integral()) return sign(left.integer, right.integer);
  if (!left.is_integral() && !right.is_integral()) return sign(left.real, right.real);
  if (!left.is_integral()) return -CompareNumbers(right, left);
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (right.real >= kTwoTo63) return -1;
  if (right.real < -kTwoTo63) return 1;
  const double whole = std::floor(right.real);
  const int order = sign(left.integer, static_cast<int64_t>(whole));
  return order != 0 ? order : whole < right.real ? -1 : 0;
}

bool AreEqual(const Cell& left, const Cell& right) {
  if (left.is_number() && right.is_number()) return CompareNumbers(left, right) == 0;
  if (left.kind != right.kind) return false;
  if (left.kind == Cell::Kind::kText) return *left.text == *right.text;
  return std::equal(left.list->begin(), left.list->end(), right.list->begin(), right.list->end(),
                    AreEqual);
}

bool Contains(const Cell& item, const Cell& container, bool* result, std::string* error) {
  if (container.kind == Cell::Kind::kText && item.kind == Cell::Kind::kText) {
    *result = container.text->find(*item.text) != std::string::npos;
    return true;
  }
  if (container.kind != Cell::Kind::kList) {
    return Fail(error, absl::StrCat("'in' needs a list on its right, not ", KindName(container)));
  }
  *result = std::any_of(container.list->begin(), container.list->end(),
                        [&](const Cell& other) { return AreEqual(item, other); });
  return true;
}

struct FunctionTraits {
  absl::string_view name;
  Function function;
  ArgumentCount arguments;
};

constexpr std::array<FunctionTraits, 14> kFunctions = {{
    {"ceil_div", Function::kCeilDiv, {2, 2}},
    {"min", Function::kMin, {1, 64}},
    {"max", Function::kMax, {1, 64}},
    {"abs", Function::kAbs, {1, 1}},
    {"log2", Function::kLog2, {1, 1}},
    {"pow2", Function::kPow2, {2, 2}},
    {"range", Function::kRange, {2, 3}},
    {"int", Function::kInt, {1, 1}},
    {"float", Function::kFloat, {1, 1}},
    {"round", Function::kRound, {1, 1}},
    {"floor", Function::kFloor, {1, 1}},
    {"ceil", Function::kCeil, {1, 1}},
    {"sqrt", Function::kSqrt, {1, 1}},
    {"by_limit", Function::kByLimit, {3, 3}},
}};

// int, round, floor and ceil: a whole number of a number.
bool Whole(Function function, const Cell& argument, Cell* result, std::string* error) {
  if (argument.is_integral()) {
    *result = Cell::Integer(argument.integer);
    return true;
  }
  // nearbyint rounds halves to even, as Python does.
  const double whole = function == Function::kInt     ? std::trunc(argument.real)
                       : function == Function::kFloor ? std::floor(argument.real)
                       : function == Function::kCeil  ? std::ceil(argument.real)
                                                      : std::nearbyint(argument.real);
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (!(whole >= -kTwoTo63 && whole < kTwoTo63)) return Overflow(error);
  *result = Cell::Integer(static_cast<int64_t>(whole));
  return true;
}

// The functions of one number.
bool NumberFunction(Function function, const Cell& argument, Cell* result, std::string* error) {
  if (!argument.is_number()) {
    return Fail(error, absl::StrCat("a number is needed, not ", KindName(argument)));
  }
  switch (function) {
    case Function::kFloat:
      *result = Cell::Real(argument.AsReal());
      return true;
    case Function::kSqrt:
      if (argument.AsReal() < 0) return Fail(error, "sqrt takes no negative number");
      *result = Cell::Real(std::sqrt(argument.AsReal()));
      return true;
    default:
      return Whole(function, argument, result, error);
  }
}

bool CeilDiv(const Cell& left, const Cell& right, Arena* arena, Cell* result, std::string* error) {
  Cell negated;
  Cell floored;
  return ApplyUnary(UnaryOp::kNegate, left, &negated, error) &&
         ApplyBinary(BinaryOp::kFloorDivide, negated, right, arena, &floored, error) &&
         ApplyUnary(UnaryOp::kNegate, floored, result, error);
}

bool Extreme(Function function, const Cell* arguments, size_t count, Cell* result,
             std::string* error) {
  if (count == 1 && arguments[0].kind == Cell::Kind::kList) {
    const std::vector<Cell>& list = *arguments[0].list;
    arguments = list.data();
    count = list.size();
    if (count == 0) return Fail(error, "the list is empty");
  }
  const CompareOp better = function == Function::kMin ? CompareOp::kLess : CompareOp::kGreater;
  Cell best = arguments[0];
  if (!best.is_number() && best.kind != Cell::Kind::kText) {
    return Fail(error, absl::StrCat("a number is needed, not ", KindName(best)));
  }
  for (size_t i = 1; i < count; ++i) {
    bool replace = false;
    if (!ApplyCompare(better, arguments[i], best, &replace, error)) return false;
    if (replace) best = arguments[i];
  }
  *result = best;
  return true;
}

bool PowersOfTwo(int64_t first, int64_t last, Arena* arena, Cell* result, std::string* error) {
  for (int64_t bound : {first, last}) {
    if (bound <= 0 || !std::has_single_bit(static_cast<uint64_t>(bound))) {
      return Fail(error, absl::StrCat("pow2 takes powers of two, not ", bound));
    }
  }
  std::vector<Cell> items;
  for (uint64_t value = first; value <= static_cast<uint64_t>(last); value *= 2) {
    items.push_back(Cell::Integer(static_cast<int64_t>(value)));
  }
  return MakeList(items.data(), items.size(), arena, result, error);
}

bool Range(int64_t first, int64_t end, int64_t step, Arena* arena, Cell* result,
           std::string* error) {
  if (step == 0) return Fail(error, "the step of a range is zero");
  std::vector<Cell> items;
  for (int64_t value = first; step > 0 ? value < end : value > end;) {
    if (items.size() == kMaxListItems) {
      return Fail(error, absl::StrCat("a list has more than ", kMaxListItems, " items"));
    }
    items.push_back(Cell::Integer(value));
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  *result = Cell::List(arena->Keep(std::move(items)));
  return true;
}

// The value beside the first limit that the key does not exceed; the last value has no limit.
bool ByLimit(const Cell& key, const Cell& limits, const Cell& values, Cell* result,
             std::string* error) {
  for (const Cell* list : {&limits, &values}) {
    if (list->kind != Cell::Kind::kList) {
      return Fail(error, absl::StrCat("by_limit takes lists of limits and of values, not ",
                                      KindName(*list)));
    }
  }
  const size_t count = limits.list->size();
  if (values.list->size() != count + 1) {
    return Fail(error, absl::StrCat("by_limit needs one value more than limits, not ",
                                    values.list->size(), " for ", count));
  }
  size_t row = 0;
  for (; row < count; ++row) {
    bool is_above = false;
    if (!ApplyCompare(CompareOp::kGreater, key, (*limits.list)[row], &is_above, error)) {
      return false;
    }
    if (!is_above) break;
  }
  *result = (*values.list)[row];
  return true;
}

}  // namespace

Cell ToCell(const Value& value) {
  if (const bool* boolean = std::get_if<bool>(&value)) return Cell::Boolean(*boolean);
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return Cell::Integer(*integer);
  if (const double* real = std::get_if<double>(&value)) return Cell::Real(*real);
  return Cell::Text(&std::get<std::string>(value));
}

Value ToValue(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::kBoolean:
      return cell.integer != 0;
    case Cell::Kind::kReal:
      return cell.real;
    case Cell::Kind::kText:
      return *cell.text;
    default:
      return cell.integer;
  }
}

absl::string_view KindName(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::kBoolean:
      return "a boolean";
    case Cell::Kind::kInteger:
      return "an integer";
    case Cell::Kind::kReal:
      return "a float";
    case Cell::Kind::kText:
      return "a string";
    case Cell::Kind::kList:
      return "a list";
    case Cell::Kind::kAbsent:
    case Cell::Kind::kFailed:
      break;
  }
  return "nothing";
}

bool ApplyUnary(UnaryOp op, const Cell& operand, Cell* result, std::string* error) {
  if (op == UnaryOp::kNot) {
    *result = Cell::Boolean(!IsTrue(operand));
    return true;
  }
  if (!operand.is_number()) {
    return Fail(error, absl::StrCat("a number is needed, not ", KindName(operand)));
  }
  if (op == UnaryOp::kInvert) {
    if (!operand.is_integral()) {
      return Fail(error, absl::StrCat("an integer is needed, not ", KindName(operand)));
    }
    *result = Cell::Integer(~operand.integer);
    return true;
  }
  if (operand.kind == Cell::Kind::kReal) {
    *result = Cell::Real(op == UnaryOp::kNegate ? -operand.real : operand.real);
    return true;
  }
  if (op == UnaryOp::kNegate && operand.integer == kMinInteger) return Overflow(error);
  *result = Cell::Integer(op == UnaryOp::kNegate ? -operand.integer : operand.integer);
  return true;
}

bool ApplyBinary(BinaryOp op, const Cell& left, const Cell& right, Arena* arena, Cell* result,
                 std::string* error) {
  if (left.is_integral() && right.is_integral()) {
    return IntegerBinary(op, left.integer, right.integer, result, error);
  }
  if (left.is_number() && right.is_number() && op < BinaryOp::kShiftLeft) {
    return RealBinary(op, left.AsReal(), right.AsReal(), result, error);
  }
  if (op == BinaryOp::kAdd && left.kind == right.kind) {
    return Concatenate(left, right, arena, result, error);
  }
  return Fail(error, absl::StrCat("'", Symbol(op), "' does not work on ", KindName(left), " and ",
                                  KindName(right)));
}

bool ApplyCompare(CompareOp op, const Cell& left, const Cell& right, bool* result,
                  std::string* error) {
  switch (op) {
    case CompareOp::kEqual:
      *result = AreEqual(left, right);
      return true;
    case CompareOp::kNotEqual:
      *result = !AreEqual(left, right);
      return true;
    case CompareOp::kIn:
      return Contains(left, right, result, error);
    case CompareOp::kNotIn:
      if (!Contains(left, right, result, error)) return false;
      *result = !*result;
      return true;
    default:
      break;
  }
  int order = 0;
  if (left.is_number() && right.is_number()) {
    order = CompareNumbers(left, right);
  } else if (left.kind == Cell::Kind::kText && right.kind == Cell::Kind::kText) {
    order = left.text->compare(*right.text);
  } else {
    return Fail(error, absl::StrCat("'", Symbol(op), "' cannot compare ", KindName(left), " with ",
                                    KindName(right)));
  }
  *result = op == CompareOp::kLess        ? order < 0
            : op == CompareOp::kLessEqual ? order <= 0
            : op == CompareOp::kGreater   ? order > 0
                                          : order >= 0;
  return true;
}

bool ApplyFunction(Function function, const Cell* arguments, size_t count, Arena* arena,
                   Cell* result, std::string* error) {
  switch (function) {
    case Function::kCeilDiv:
      return CeilDiv(arguments[0], arguments[1], arena, result, error);
    case Function::kMin:
    case Function::kMax:
      return Extreme(function, arguments, count, result, error);
    case Function::kAbs: {
      const Cell zero = Cell::Integer(0);
      const bool negative = arguments[0].is_number() && CompareNumbers(arguments[0], zero) < 0;
      return ApplyUnary(negative ? UnaryOp::kNegate : UnaryOp::kPlus, arguments[0], result, error);
    }
    case Function::kLog2:
      if (!arguments[0].is_number() || arguments[0].AsReal() <= 0) {
        return Fail(error, "log2 takes a number above zero");
      }
      *result = Cell::Real(std::log2(arguments[0].AsReal()));
      return true;
    case Function::kByLimit:
      return ByLimit(arguments[0], arguments[1], arguments[2], result, error);
    case Function::kPow2:
    case Function::kRange:
      break;
    default:
      return NumberFunction(function, arguments[0], result, error);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!arguments[i].is_integral()) {
      return Fail(error, absl::StrCat("an integer is needed, not ", KindName(arguments[i])));
    }
  }
  if (function == Function::kPow2) {
    return PowersOfTwo(arguments[0].integer, arguments[1].integer, arena, result, error);
  }
  return Range(arguments[0].integer, arguments[1].integer, count == 3 ? arguments[2].integer : 1,
               arena, result, error);
}

bool MakeList(const Cell* items, size_t count, Arena* arena, Cell* result, std::string* error) {
  if (count > kMaxListItems) {
    return Fail(error, absl::StrCat("a list has more than ", kMaxListItems, " items"));
  }
  for (size_t i = 0; i < count; ++i) {
    if (items[i].kind == Cell::Kind::kList) return Fail(error, "a list cannot hold a list");
  }
  *result = Cell::List(arena->Keep(std::vector<Cell>(items, items + count)));
  return true;
}

bool IsTrue(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::kBoolean:
    case Cell::Kind::kInteger:
      return cell.integer != 0;
    case Cell::Kind::kReal:
      return cell.real != 0;
    case Cell::Kind::kText:
      return !cell.text->empty();
    case Cell::Kind::kList:
      return !cell.list->empty();
    case Cell::Kind::kAbsent:
    case Cell::Kind::kFailed:
      break;
  }
  return false;
}

std::optional<Function> FunctionNamed(absl::string_view name) {
  for (const FunctionTraits& traits : kFunctions) {
    if (traits.name == name) return traits.function;
  }
  return std::nullopt;
}

std::string FunctionNames() {
  return absl::StrJoin(kFunctions, ", ", [](std::string* out, const FunctionTraits& traits) {
    absl::StrAppend(out, traits.name);
  });
}

ArgumentCount ArgumentsOf(Function function) {
  return kFunctions[static_cast<size_t>(function)].arguments;
}

bool IsReservedName(absl::string_view name) {
  static constexpr std::array<absl::string_view, 8> kKeywords = {"and", "or",   "not",  "in",
                                                                 "if",  "else", "True", "False"};
  return FunctionNamed(name).has_value() ||
         std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
}

}  // namespace tune
