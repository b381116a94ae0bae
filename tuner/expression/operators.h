// SPDX-License-Identifier: Apache-2.0
// The operators and functions of the expression language. Every way of evaluating uses this one
// implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tuner/value.h"

namespace tune {

// A value while an expression is evaluated: 16 bytes, trivially copied. Text and lists live in an
// Arena or in the program that names them.
struct Cell {
  enum class Kind : uint8_t {
    kBoolean,  // `integer` is 0 or 1, so that arithmetic need not care
    kInteger,
    kReal,
    kText,
    kList,
    kAbsent,  // a name without a value
    kFailed,  // a derived value that could not be evaluated; `text` says why
  };
  Kind kind = Kind::kAbsent;
  union {
    int64_t integer = 0;
    double real;
    const std::string* text;
    const std::vector<Cell>* list;
  };

  static Cell Boolean(bool value) { return OfInteger(Kind::kBoolean, value ? 1 : 0); }
  static Cell Integer(int64_t value) { return OfInteger(Kind::kInteger, value); }
  static Cell Real(double value) {
    Cell cell;
    cell.kind = Kind::kReal;
    cell.real = value;
    return cell;
  }
  static Cell Text(const std::string* value) { return OfText(Kind::kText, value); }
  static Cell Failed(const std::string* why) { return OfText(Kind::kFailed, why); }
  static Cell List(const std::vector<Cell>* value) {
    Cell cell;
    cell.kind = Kind::kList;
    cell.list = value;
    return cell;
  }

  bool is_integral() const { return kind <= Kind::kInteger; }
  bool is_number() const { return kind <= Kind::kReal; }
  double AsReal() const { return kind == Kind::kReal ? real : static_cast<double>(integer); }

 private:
  static Cell OfInteger(Kind kind, int64_t value) {
    Cell cell;
    cell.kind = kind;
    cell.integer = value;
    return cell;
  }
  static Cell OfText(Kind kind, const std::string* value) {
    Cell cell;
    cell.kind = kind;
    cell.text = value;
    return cell;
  }
};

// Owns the text and lists that an evaluation makes.
class Arena {
 public:
  const std::string* Keep(std::string text) { return &texts_.emplace_front(std::move(text)); }
  const std::vector<Cell>* Keep(std::vector<Cell> list) {
    return &lists_.emplace_front(std::move(list));
  }
  void Clear() {
    texts_.clear();
    lists_.clear();
  }

 private:
  // Take no memory while nothing is kept, which is so in most evaluations.
  std::forward_list<std::string> texts_;
  std::forward_list<std::vector<Cell>> lists_;
};

// `value` must outlive the cell.
Cell ToCell(const Value& value);
// REQUIRES: not a list, absent or failed.
Value ToValue(const Cell& cell);
// "an integer", "a list", ...
absl::string_view KindName(const Cell& cell);

enum class UnaryOp : uint8_t { kNegate, kPlus, kNot, kInvert };
enum class BinaryOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kShiftLeft,
  kShiftRight,
  kBitAnd,
  kBitXor,
  kBitOr,
};
enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
enum class Function : uint8_t {
  kCeilDiv,
  kMin,
  kMax,
  kAbs,
  kLog2,
  kPow2,
  kRange,
  kInt,
  kFloat,
  kRound,
  kFloor,
  kCeil,
  kSqrt,
  kByLimit,
};

// Lists and texts longer than these are errors.
inline constexpr size_t kMaxListItems = 4096;
inline constexpr size_t kMaxTextLength = 4096;

// Each returns true and the result, or false and why not.
bool ApplyUnary(UnaryOp op, const Cell& operand, Cell* result, std::string* error);
bool ApplyBinary(BinaryOp op, const Cell& left, const Cell& right, Arena* arena, Cell* result,
                 std::string* error);
bool ApplyCompare(CompareOp op, const Cell& left, const Cell& right, bool* result,
                  std::string* error);
bool ApplyFunction(Function function, const Cell* arguments, size_t count, Arena* arena,
                   Cell* result, std::string* error);
// The list of `count` items; lists do not nest.
bool MakeList(const Cell* items, size_t count, Arena* arena, Cell* result, std::string* error);

// Python's truth: not zero, not empty.
bool IsTrue(const Cell& cell);

std::optional<Function> FunctionNamed(absl::string_view name);
// "ceil_div, min, ...", for messages.
std::string FunctionNames();
// How often a function takes arguments, for the parser: {least, most}.
struct ArgumentCount {
  size_t least;
  size_t most;
};
ArgumentCount ArgumentsOf(Function function);
// Names that mean something in every expression: keywords and functions.
bool IsReservedName(absl::string_view name);

}  // namespace tune
