// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/term_builder.h"

#include <algorithm>
#include <cmath>

namespace tune {

using Node = Expression::Node;

namespace {

// Integers up to this are exact as floats, too.
constexpr Word kMaxExactInteger = Word{1} << 53;

bool AllKinds(const std::vector<Value>& values, bool (*is_kind)(const Value&)) {
  return std::all_of(values.begin(), values.end(), is_kind);
}
bool IsInteger(const Value& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<bool>(value);
}
bool IsText(const Value& value) { return std::holds_alternative<std::string>(value); }
bool IsNumber(const Value& value) { return !IsText(value); }

Word IntegerOf(const Value& value) {
  const bool* truth = std::get_if<bool>(&value);
  return truth != nullptr ? (*truth ? 1 : 0) : std::get<int64_t>(value);
}

bool FitsReal(const Value& value) {
  return !IsInteger(value) || std::abs(IntegerOf(value)) <= kMaxExactInteger;
}

}  // namespace

TermBuilder::TermBuilder(const SpaceDefinition& definition) : definition_(definition) {
  words_.resize(definition.params.size());
  for (size_t i = 0; i < definition.params.size(); ++i) AddParam(i);
  for (const SpaceLet& let : definition.lets) lets_.emplace(let.name, &let);
}

void TermBuilder::AddParam(size_t param) {
  const auto& [name, values] = definition_.params[param];
  Term term = {.op = TermOp::kParam, .param = static_cast<uint32_t>(param)};
  term.params = ParamSet{1} << param;
  std::vector<Word>& words = words_[param];
  const bool is_integer = AllKinds(values, IsInteger);
  if (AllKinds(values, IsText)) {
    term.type = TermType::kText;
    for (const Value& value : values) {
      const std::string& text = std::get<std::string>(value);
      words.push_back(texts_.emplace(text, texts_.size()).first->second);
    }
  } else if (is_integer || (AllKinds(values, IsNumber) && AllKinds(values, FitsReal))) {
    term.type = is_integer ? TermType::kInteger : TermType::kReal;
    for (const Value& value : values) {
      term.mixed |= !is_integer && IsInteger(value);
      const Word integer = IsInteger(value) ? IntegerOf(value) : 0;
      words.push_back(is_integer         ? integer
                      : IsInteger(value) ? WordOf(static_cast<double>(integer))
                                         : WordOf(std::get<double>(value)));
    }
  }
  auto unusual = [&](Word word) {
    return term.type == TermType::kReal ? !std::isfinite(RealOf(word)) : word == kPoison;
  };
  if (std::any_of(words.begin(), words.end(), unusual)) words.clear();
  if (words.empty()) {
    names_[name] = std::nullopt;
    return;
  }
  if (values.size() == 1) {
    names_[name] = Constant(values[0]);
    return;
  }
  if (term.type == TermType::kReal) {
    auto less = [](Word a, Word b) { return RealOf(a) < RealOf(b); };
    const auto [low, high] = std::minmax_element(words.begin(), words.end(), less);
    term.real_low = RealOf(*low);
    term.real_high = RealOf(*high);
  } else {
    const auto [low, high] = std::minmax_element(words.begin(), words.end());
    term.low = *low;
    term.high = *high;
    term.is_truth = term.type == TermType::kInteger && term.low >= 0 && term.high <= 1;
  }
  names_[name] = Intern(std::move(term));
}

std::optional<TermId> TermBuilder::Name(const std::string& name) {
  const auto known = names_.find(name);
  if (known != names_.end()) return known->second;
  Result result;
  const auto let = lets_.find(name);
  if (let != lets_.end()) {
    names_[name] = std::nullopt;  // should it need itself
    result = ValueOf(*let->second->expression.root());
  } else if (const Value* value = definition_.constants.Find(name)) {
    result = Constant(*value);
  }
  return names_[name] = result;
}

std::optional<TermId> TermBuilder::IntegerConstant(Word word) {
  if (word == kPoison) return std::nullopt;
  return Intern({.is_truth = word == 0 || word == 1, .word = word, .low = word, .high = word});
}

std::optional<TermId> TermBuilder::RealConstant(double real) {
  if (!std::isfinite(real)) return std::nullopt;
  return Intern(
      {.type = TermType::kReal, .word = WordOf(real), .real_low = real, .real_high = real});
}

std::optional<TermId> TermBuilder::Constant(const Value& value) {
  if (IsText(value)) {
    const Word word = texts_.emplace(std::get<std::string>(value), texts_.size()).first->second;
    return Intern({.type = TermType::kText, .word = word, .low = word, .high = word});
  }
  return IsInteger(value) ? IntegerConstant(IntegerOf(value))
                          : RealConstant(std::get<double>(value));
}

std::optional<TermId> TermBuilder::Truth(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kAnd:
    case Node::Kind::kOr:
      return Logic(node.kind == Node::Kind::kAnd ? TermOp::kAnd : TermOp::kOr,
                   Truth(*node.children[0]), Truth(*node.children[1]));
    case Node::Kind::kConditional:
      return Select(Truth(*node.children[0]), Truth(*node.children[1]), Truth(*node.children[2]));
    case Node::Kind::kUnary:
      if (node.unary != UnaryOp::kNot) break;
      return Unary(node);
    default:
      break;
  }
  const Result value = ValueOf(node);
  return value.has_value() ? TruthOf(*value) : std::nullopt;
}

std::optional<TermId> TermBuilder::TruthOf(TermId id) {
  const Term& term = At(id);
  if (term.type == TermType::kText) return std::nullopt;
  if (term.is_truth) return id;
  return Apply(term.type == TermType::kReal ? TermOp::kRealTruth : TermOp::kTruth,
               TermType::kInteger, {id});
}

std::optional<TermId> TermBuilder::ToReal(TermId id) {
  const Term& term = At(id);
  if (term.type == TermType::kReal) return id;
  if (term.type == TermType::kText) return std::nullopt;
  if (term.low < -kMaxExactInteger || term.high > kMaxExactInteger) return std::nullopt;
  return Apply(TermOp::kToReal, TermType::kReal, {id});
}

// Values. `and` and `or` give one of their operands, as in Python.
std::optional<TermId> TermBuilder::ValueOf(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kLiteral:
      return Constant(node.value);
    case Node::Kind::kName:
      return Name(node.name);
    case Node::Kind::kUnary:
      return Unary(node);
    case Node::Kind::kBinary:
      return Binary(node);
    case Node::Kind::kCompare:
      return Compare(node);
    case Node::Kind::kCall:
      return Call(node);
    case Node::Kind::kConditional:
      return Select(Truth(*node.children[0]), ValueOf(*node.children[1]),
                    ValueOf(*node.children[2]));
    case Node::Kind::kAnd:
    case Node::Kind::kOr: {
      const Result left = ValueOf(*node.children[0]);
      const Result right = ValueOf(*node.children[1]);
      if (!left.has_value() || !right.has_value()) return std::nullopt;
      return node.kind == Node::Kind::kAnd ? Select(TruthOf(*left), right, left)
                                           : Select(TruthOf(*left), left, right);
    }
    case Node::Kind::kList:
      break;
  }
  return std::nullopt;
}

std::optional<TermId> TermBuilder::Unary(const Node& node) {
  if (node.unary == UnaryOp::kNot) {
    const Result truth = Truth(*node.children[0]);
    return truth.has_value() ? Apply(TermOp::kNot, TermType::kInteger, {*truth}) : std::nullopt;
  }
  const Result value = ValueOf(*node.children[0]);
  if (!value.has_value() || At(*value).type == TermType::kText) return std::nullopt;
  if (node.unary == UnaryOp::kPlus) return value;
  const bool is_real = At(*value).type == TermType::kReal;
  if (node.unary == UnaryOp::kInvert) {
    return is_real ? std::nullopt : Apply(TermOp::kInvert, TermType::kInteger, {*value});
  }
  return is_real ? Apply(TermOp::kRealNegate, TermType::kReal, {*value})
                 : Apply(TermOp::kNegate, TermType::kInteger, {*value});
}

std::optional<TermId> TermBuilder::Binary(const Node& node) {
  const Result left = ValueOf(*node.children[0]);
  const Result right = ValueOf(*node.children[1]);
  if (!left.has_value() || !right.has_value()) return std::nullopt;
  const bool integers =
      At(*left).type == TermType::kInteger && At(*right).type == TermType::kInteger;
  if (integers && (node.binary == BinaryOp::kAdd || node.binary == BinaryOp::kMultiply)) {
    return Chain(node.binary == BinaryOp::kAdd ? TermOp::kAdd : TermOp::kMultiply, *left, *right);
  }
  static constexpr std::pair<TermOp, TermOp> kOps[] = {
      {TermOp::kAdd, TermOp::kRealAdd},
      {TermOp::kSubtract, TermOp::kRealSubtract},
      {TermOp::kMultiply, TermOp::kRealMultiply},
      {TermOp::kConstant, TermOp::kRealDivide},
      {TermOp::kFloorDivide, TermOp::kRealFloorDivide},
      {TermOp::kModulo, TermOp::kRealModulo},
      {TermOp::kPower, TermOp::kRealPower},
      {TermOp::kShiftLeft, TermOp::kConstant},
      {TermOp::kShiftRight, TermOp::kConstant},
      {TermOp::kBitAnd, TermOp::kConstant},
      {TermOp::kBitXor, TermOp::kConstant},
      {TermOp::kBitOr, TermOp::kConstant}};
  const auto [op, real_op] = kOps[static_cast<size_t>(node.binary)];
  // An integer to a negative power is a float.
  const bool as_integer = op == TermOp::kPower ? At(*right).low >= 0 : op != TermOp::kConstant;
  if (integers && as_integer) return Apply(op, TermType::kInteger, {*left, *right});
  if (real_op == TermOp::kConstant) return std::nullopt;
  if (op == TermOp::kPower &&
      (integers || At(*left).mixed || At(*right).mixed || At(*left).type != At(*right).type)) {
    return std::nullopt;
  }
  const Result a = ToReal(*left);
  const Result b = ToReal(*right);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return Apply(real_op, TermType::kReal, {*a, *b});
}

std::optional<TermId> TermBuilder::Chain(TermOp op, TermId left, TermId right) {
  const TermOp chain = op == TermOp::kAdd ? TermOp::kSum : TermOp::kProduct;
  if (At(left).may_fail || At(right).may_fail) {
    return Apply(op, TermType::kInteger, {left, right});
  }
  std::vector<TermId> operands;
  Word constant = op == TermOp::kAdd ? 0 : 1;
  const Word neutral = constant;
  auto add = [&](TermId id) {
    if (At(id).op != TermOp::kConstant) {
      operands.push_back(id);
      return true;
    }
    return !(op == TermOp::kAdd ? __builtin_add_overflow(constant, At(id).word, &constant)
                                : __builtin_mul_overflow(constant, At(id).word, &constant));
  };
  for (TermId id : {left, right}) {
    const std::vector<TermId> parts =
        At(id).op == chain ? At(id).operands : std::vector<TermId>{id};
    for (TermId part : parts) {
      if (!add(part)) return Apply(op, TermType::kInteger, {left, right});
    }
  }
  if (operands.empty()) return IntegerConstant(constant);
  if (constant != neutral) operands.push_back(*IntegerConstant(constant));
  if (operands.size() == 1) return operands[0];
  std::sort(operands.begin(), operands.end());
  const Result result = Apply(chain, TermType::kInteger, std::move(operands));
  return result.has_value() ? result : Apply(op, TermType::kInteger, {left, right});
}

std::optional<TermId> TermBuilder::Extreme(TermOp op, TermOp real_op,
                                           const std::vector<NodePointer>& arguments) {
  if (arguments.size() == 1 && arguments[0]->kind == Node::Kind::kList &&
      !arguments[0]->children.empty()) {
    return Extreme(op, real_op, arguments[0]->children);
  }
  if (arguments.size() < 2) return std::nullopt;
  Result best = ValueOf(*arguments[0]);
  for (size_t i = 1; i < arguments.size() && best.has_value(); ++i) {
    const Result next = ValueOf(*arguments[i]);
    if (!next.has_value()) return std::nullopt;
    if (At(*best).type == TermType::kInteger && At(*next).type == TermType::kInteger) {
      best = Apply(op, TermType::kInteger, {*best, *next});
      continue;
    }
    const Result a = ToReal(*best);
    const Result b = ToReal(*next);
    if (!a.has_value() || !b.has_value()) return std::nullopt;
    best = Apply(real_op, TermType::kReal, {*a, *b});
  }
  return best;
}

std::optional<TermId> TermBuilder::Call(const Node& node) {
  if (node.function == Function::kMin) {
    return Extreme(TermOp::kMin, TermOp::kRealMin, node.children);
  }
  if (node.function == Function::kMax) {
    return Extreme(TermOp::kMax, TermOp::kRealMax, node.children);
  }
  const Result first = ValueOf(*node.children[0]);
  if (!first.has_value() || At(*first).type == TermType::kText) return std::nullopt;
  const bool is_integer = At(*first).type == TermType::kInteger;
  auto whole = [&](TermOp op) {
    return is_integer ? first : Apply(op, TermType::kInteger, {*first});
  };
  switch (node.function) {
    case Function::kCeilDiv: {
      const Result second = ValueOf(*node.children[1]);
      if (!is_integer || !second.has_value() || At(*second).type != TermType::kInteger) {
        return std::nullopt;
      }
      const Result negated = Apply(TermOp::kNegate, TermType::kInteger, {*first});
      const Result floored =
          negated ? Apply(TermOp::kFloorDivide, TermType::kInteger, {*negated, *second})
                  : std::nullopt;
      return floored ? Apply(TermOp::kNegate, TermType::kInteger, {*floored}) : std::nullopt;
    }
    case Function::kAbs:
      return is_integer ? Apply(TermOp::kAbs, TermType::kInteger, {*first})
                        : Apply(TermOp::kRealAbs, TermType::kReal, {*first});
    case Function::kLog2:
    case Function::kSqrt: {
      const Result real = ToReal(*first);
      const TermOp op = node.function == Function::kLog2 ? TermOp::kRealLog2 : TermOp::kRealSqrt;
      return real ? Apply(op, TermType::kReal, {*real}) : std::nullopt;
    }
    case Function::kFloat:
      return ToReal(*first);
    case Function::kInt:
      return whole(TermOp::kTruncate);
    case Function::kRound:
      return whole(TermOp::kRound);
    case Function::kFloor:
      return whole(TermOp::kFloor);
    case Function::kCeil:
      return whole(TermOp::kCeil);
    default:
      return std::nullopt;
  }
}

std::optional<TermId> TermBuilder::Compare(const Node& node) {
  Result all;
  for (size_t i = 0; i < node.compares.size(); ++i) {
    const CompareOp op = node.compares[i];
    Result one;
    if (op == CompareOp::kIn || op == CompareOp::kNotIn) {
      one = IsIn(*node.children[i], *node.children[i + 1]);
      if (one.has_value() && op == CompareOp::kNotIn) {
        one = Apply(TermOp::kNot, TermType::kInteger, {*one});
      }
    } else {
      const Result left = ValueOf(*node.children[i]);
      const Result right = ValueOf(*node.children[i + 1]);
      if (!left.has_value() || !right.has_value()) return std::nullopt;
      one = CompareTwo(op, *left, *right);
    }
    if (!one.has_value()) return std::nullopt;
    all = i == 0 ? one : Logic(TermOp::kAnd, all, one);
  }
  return all;
}

std::optional<TermId> TermBuilder::CompareTwo(CompareOp op, TermId left, TermId right) {
  const TermType left_type = At(left).type;
  const TermType right_type = At(right).type;
  const bool by_order = op != CompareOp::kEqual && op != CompareOp::kNotEqual;
  if (left_type == TermType::kText || right_type == TermType::kText) {
    if (by_order || At(left).may_fail || At(right).may_fail) return std::nullopt;
    if (left_type != right_type) return IntegerConstant(op == CompareOp::kNotEqual ? 1 : 0);
  }
  const bool is_real = left_type == TermType::kReal || right_type == TermType::kReal;
  if (is_real) {
    const Result a = ToReal(left);
    const Result b = ToReal(right);
    if (!a.has_value() || !b.has_value()) return std::nullopt;
    left = *a;
    right = *b;
  }
  auto apply = [&](TermOp integer, TermOp real, TermId a, TermId b) {
    return Apply(is_real ? real : integer, TermType::kInteger, {a, b});
  };
  switch (op) {
    case CompareOp::kEqual:
      return apply(TermOp::kEqual, TermOp::kRealEqual, left, right);
    case CompareOp::kNotEqual:
      return apply(TermOp::kNotEqual, TermOp::kRealNotEqual, left, right);
    case CompareOp::kLess:
      return apply(TermOp::kLess, TermOp::kRealLess, left, right);
    case CompareOp::kLessEqual:
      return apply(TermOp::kLessEqual, TermOp::kRealLessEqual, left, right);
    case CompareOp::kGreater:
      return apply(TermOp::kLess, TermOp::kRealLess, right, left);
    case CompareOp::kGreaterEqual:
      return apply(TermOp::kLessEqual, TermOp::kRealLessEqual, right, left);
    default:
      return std::nullopt;
  }
}

std::optional<TermId> TermBuilder::IsIn(const Node& item, const Node& list) {
  const Result value = ValueOf(item);
  if (!value.has_value() || list.kind != Node::Kind::kList || list.children.empty()) {
    return std::nullopt;
  }
  std::vector<TermId> others;
  std::vector<Word> set;
  bool all_integers = At(*value).type == TermType::kInteger;
  for (const NodePointer& child : list.children) {
    const Result other = ValueOf(*child);
    // Python evaluates every item, so one that may fail must not be skipped.
    if (!other.has_value() || At(*other).may_fail) return std::nullopt;
    const Term& term = At(*other);
    all_integers &= term.op == TermOp::kConstant && term.type == TermType::kInteger;
    set.push_back(term.word);
    others.push_back(*other);
  }
  if (all_integers && set.size() > 2) {
    std::sort(set.begin(), set.end());
    const auto [known, is_new] = sets_.emplace(set, static_cast<Word>(graph_.sets.size()));
    if (is_new) graph_.sets.push_back(std::move(set));
    return Apply(TermOp::kIsOneOf, TermType::kInteger, {*value}, known->second);
  }
  Result any = IntegerConstant(0);
  for (TermId other : others) {
    any = Logic(TermOp::kOr, any, CompareTwo(CompareOp::kEqual, *value, other));
  }
  return any;
}

std::optional<TermId> TermBuilder::Logic(TermOp op, Result left, Result right) {
  if (!left.has_value()) return std::nullopt;
  const Word decides = op == TermOp::kAnd ? 0 : 1;
  if (At(*left).op == TermOp::kConstant) return At(*left).word == decides ? left : right;
  if (!right.has_value()) return std::nullopt;
  // The operands may change places only if nothing on the left can fail.
  if (At(*right).op == TermOp::kConstant && !At(*left).may_fail) {
    return At(*right).word == decides ? right : left;
  }
  return Apply(op, TermType::kInteger, {*left, *right});
}

std::optional<TermId> TermBuilder::Select(Result condition, Result then, Result otherwise) {
  if (!condition.has_value()) return std::nullopt;
  if (At(*condition).op == TermOp::kConstant) return At(*condition).word != 0 ? then : otherwise;
  if (!then.has_value() || !otherwise.has_value()) return std::nullopt;
  if (At(*then).type != At(*otherwise).type) {
    // A select of an integer and a float is a float that remembers whether it was an integer
    // (`mixed`).
    then = ToReal(*then);
    otherwise = ToReal(*otherwise);
    if (!then.has_value() || !otherwise.has_value()) return std::nullopt;
    Term term = {.op = TermOp::kSelect, .type = TermType::kReal, .mixed = true};
    term.operands = {*condition, *then, *otherwise};
    return SetTermBounds(graph_, &term) ? Intern(std::move(term)) : std::nullopt;
  }
  return Apply(TermOp::kSelect, At(*then).type, {*condition, *then, *otherwise});
}

std::optional<TermId> TermBuilder::Apply(TermOp op, TermType type, std::vector<TermId> operands,
                                         Word word) {
  Term term = {.op = op, .type = type, .word = word, .operands = std::move(operands)};
  bool all_constant = true;
  bool any_mixed = false;
  bool all_mixed = true;
  for (TermId id : term.operands) {
    all_constant &= At(id).op == TermOp::kConstant;
    any_mixed |= At(id).mixed;
    all_mixed &= At(id).mixed;
  }
  const bool is_float =
      op == TermOp::kRealDivide || op == TermOp::kRealLog2 || op == TermOp::kRealSqrt;
  const bool chooses = op == TermOp::kRealMin || op == TermOp::kRealMax || op == TermOp::kSelect;
  term.mixed = type == TermType::kReal && !is_float &&
               (op == TermOp::kToReal || (chooses ? any_mixed : all_mixed));
  if (!SetTermBounds(graph_, &term)) return std::nullopt;
  if (!all_constant || op == TermOp::kSum || op == TermOp::kProduct) {
    return Intern(std::move(term));
  }
  auto at = [&](size_t i) { return i < term.operands.size() ? At(term.operands[i]).word : 0; };
  const Word folded = ApplyTerm(graph_, term, at(0), at(1), at(2));
  if (type == TermType::kReal) {
    const Result constant = RealConstant(RealOf(folded));
    return constant;
  }
  return type == TermType::kText ? std::nullopt : IntegerConstant(folded);
}

std::optional<TermId> TermBuilder::Intern(Term term) {
  for (TermId id : term.operands) {
    term.params |= At(id).params;
    term.may_fail |= At(id).may_fail;
  }
  auto narrow = [&](TermId id) { return At(id).low >= 0 && At(id).high <= INT32_MAX; };
  term.is_narrow = term.type == TermType::kInteger && term.operands.size() == 2 &&
                   narrow(term.operands[0]) && narrow(term.operands[1]);
  return graph_.Intern(std::move(term));
}

}  // namespace tune
