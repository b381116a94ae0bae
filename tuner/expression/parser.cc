// SPDX-License-Identifier: Apache-2.0
// Recursive descent, one function for each level of precedence, lowest first; Python's grammar.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tuner/expression/ast.h"

namespace tune {
namespace {

using Node = Expression::Node;

constexpr size_t kMaxExpressionLength = 4096;
constexpr int kMaxNesting = 64;

struct Token {
  enum class Kind { kEnd, kNumber, kName, kText, kSymbol };
  Kind kind = Kind::kEnd;
  uint16_t column = 1;
  absl::string_view text;  // of a string without its quotes
  Value value;             // of a number
};

class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) {}

  absl::StatusOr<Token> Next() {
    while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) ++position_;
    Token token;
    token.column = static_cast<uint16_t>(position_ + 1);
    if (position_ == text_.size()) return token;
    const char c = text_[position_];
    if (absl::ascii_isdigit(c) || (c == '.' && absl::ascii_isdigit(Peek(1)))) return Number(token);
    if (absl::ascii_isalpha(c) || c == '_') return Name(token);
    if (c == '\'' || c == '"') return Text(token);
    return Symbol(token);
  }

 private:
  char Peek(size_t ahead) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  absl::string_view Take(size_t count) {
    absl::string_view taken = absl::string_view(text_).substr(position_, count);
    position_ += count;
    return taken;
  }
  absl::Status Error(const Token& token, absl::string_view message,
                     absl::string_view advice = "") const {
    return absl::InvalidArgumentError(absl::StrCat(message, AtColumn(token.column, text_), advice));
  }

  absl::StatusOr<Token> Number(Token token) {
    size_t length = 0;
    bool real = false;
    while (absl::ascii_isalnum(Peek(length)) || Peek(length) == '.' || Peek(length) == '_') {
      const char c = Peek(length++);
      const bool exponent = c == 'e' || c == 'E';
      real |= exponent || c == '.';
      if (exponent && (Peek(length) == '+' || Peek(length) == '-')) ++length;
    }
    token.kind = Token::Kind::kNumber;
    token.text = Take(length);
    const char* end = token.text.data() + token.text.size();
    std::from_chars_result parsed;
    if (real) {
      double value = 0;
      parsed = std::from_chars(token.text.data(), end, value);
      token.value = value;
    } else {
      int64_t value = 0;
      parsed = std::from_chars(token.text.data(), end, value);
      token.value = value;
    }
    if (parsed.ec == std::errc::result_out_of_range) {
      return Error(token, absl::StrCat("number '", token.text, "' is out of range",
                                       real ? "" : "; integers end at 9223372036854775807"));
    }
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return Error(token, absl::StrCat("'", token.text, "' is not a number"));
    }
    return token;
  }

  absl::StatusOr<Token> Name(Token token) {
    size_t length = 0;
    // Python's math.ceil and the like are called without the module here.
    constexpr absl::string_view kModule = "math.";
    if (absl::StartsWith(absl::string_view(text_).substr(position_), kModule)) {
      Take(kModule.size());
    }
    while (absl::ascii_isalnum(Peek(length)) || Peek(length) == '_') ++length;
    token.kind = Token::Kind::kName;
    token.text = Take(length);
    return token;
  }

  absl::StatusOr<Token> Text(Token token) {
    const char quote = Take(1)[0];
    const size_t end = text_.find(quote, position_);
    if (end == std::string::npos) return Error(token, "string has no closing quote");
    token.kind = Token::Kind::kText;
    token.text = Take(end - position_);
    if (token.text.find('\\') != absl::string_view::npos) {
      return Error(token, "strings have no escapes, '\\' found in the one");
    }
    Take(1);
    return token;
  }

  absl::StatusOr<Token> Symbol(Token token) {
    static constexpr absl::string_view kSymbols[] = {
        "**", "//", "<=", ">=", "<<", ">>", "==", "!=", "+", "-", "*", "/",
        "%",  "<",  ">",  "&",  "^",  "|",  "~",  "(",  ")", "[", "]", ","};
    token.kind = Token::Kind::kSymbol;
    const absl::string_view rest = absl::string_view(text_).substr(position_);
    const bool is_of_c = absl::StartsWith(rest, "&&") || absl::StartsWith(rest, "||");
    for (absl::string_view symbol : kSymbols) {
      if (is_of_c || !absl::StartsWith(rest, symbol)) continue;
      token.text = Take(symbol.size());
      return token;
    }
    const absl::string_view symbol = Take(is_of_c ? 2 : 1);
    return Error(token, absl::StrCat("unexpected '", symbol, "'"), WriteInstead(symbol));
  }

  const std::string& text_;
  size_t position_ = 0;
};

class Parser {
 public:
  Parser(const std::string& text, std::vector<std::string>* names)
      : text_(text), lexer_(text), names_(names) {}

  absl::StatusOr<NodePointer> Parse() {
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(NodePointer root, Conditional());
    if (token_.kind != Token::Kind::kEnd) return Unexpected();
    return root;
  }

 private:
  using Result = absl::StatusOr<NodePointer>;

  // Counts nesting while it lives.
  struct Level {
    explicit Level(int* depth) : depth(depth) { ++*depth; }
    ~Level() { --*depth; }
    int* depth;
  };

  absl::Status Advance() {
    ASSIGN_OR_RETURN(token_, lexer_.Next());
    return absl::OkStatus();
  }
  absl::Status Error(uint16_t column, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(message, AtColumn(column, text_)));
  }
  absl::Status Unexpected() const {
    if (token_.kind == Token::Kind::kEnd) return Error(token_.column, "unexpected end");
    return absl::InvalidArgumentError(absl::StrCat("unexpected '", token_.text, "'",
                                                   AtColumn(token_.column, text_),
                                                   WriteInstead(token_.text)));
  }
  bool AtSymbol(absl::string_view symbol) const {
    return token_.kind == Token::Kind::kSymbol && token_.text == symbol;
  }
  bool AtKeyword(absl::string_view keyword) const {
    return token_.kind == Token::Kind::kName && token_.text == keyword;
  }
  absl::Status Expect(absl::string_view symbol) {
    if (!AtSymbol(symbol)) return Unexpected();
    return Advance();
  }
  static std::shared_ptr<Node> Make(Node::Kind kind, uint16_t column,
                                    std::vector<NodePointer> children = {}) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->column = column;
    node->children = std::move(children);
    return node;
  }

  Result Conditional() {
    Level level(&depth_);
    if (depth_ > kMaxNesting) {
      return Error(token_.column, absl::StrCat("more than ", kMaxNesting, " levels of nesting"));
    }
    ASSIGN_OR_RETURN(NodePointer then, Or());
    if (!AtKeyword("if")) return then;
    const uint16_t column = token_.column;
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(NodePointer condition, Or());
    if (!AtKeyword("else")) return Unexpected();
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(NodePointer otherwise, Conditional());
    return Make(Node::Kind::kConditional, column, {condition, then, otherwise});
  }

  Result Or() {
    ASSIGN_OR_RETURN(NodePointer left, And());
    while (AtKeyword("or")) {
      const uint16_t column = token_.column;
      RETURN_IF_ERROR(Advance());
      ASSIGN_OR_RETURN(NodePointer right, And());
      left = Make(Node::Kind::kOr, column, {left, right});
    }
    return left;
  }

  Result And() {
    ASSIGN_OR_RETURN(NodePointer left, Not());
    while (AtKeyword("and")) {
      const uint16_t column = token_.column;
      RETURN_IF_ERROR(Advance());
      ASSIGN_OR_RETURN(NodePointer right, Not());
      left = Make(Node::Kind::kAnd, column, {left, right});
    }
    return left;
  }

  Result Not() {
    if (!AtKeyword("not")) return Compare();
    return Prefix(UnaryOp::kNot, [this] { return Not(); });
  }

  template <typename Operand>
  Result Prefix(UnaryOp op, Operand operand) {
    Level level(&depth_);
    const uint16_t column = token_.column;
    if (depth_ > kMaxNesting) {
      return Error(column, absl::StrCat("more than ", kMaxNesting, " levels of nesting"));
    }
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(NodePointer child, operand());
    std::shared_ptr<Node> node = Make(Node::Kind::kUnary, column, {child});
    node->unary = op;
    return node;
  }

  // The comparison at the current token, which is consumed, or nothing.
  absl::StatusOr<std::optional<CompareOp>> TakeCompareOp() {
    static constexpr std::pair<absl::string_view, CompareOp> kOps[] = {
        {"==", CompareOp::kEqual},  {"!=", CompareOp::kNotEqual},
        {"<", CompareOp::kLess},    {"<=", CompareOp::kLessEqual},
        {">", CompareOp::kGreater}, {">=", CompareOp::kGreaterEqual}};
    for (const auto& [symbol, op] : kOps) {
      if (!AtSymbol(symbol)) continue;
      RETURN_IF_ERROR(Advance());
      return op;
    }
    if (AtKeyword("in")) {
      RETURN_IF_ERROR(Advance());
      return CompareOp::kIn;
    }
    if (AtKeyword("not")) {
      RETURN_IF_ERROR(Advance());
      if (!AtKeyword("in")) return Unexpected();
      RETURN_IF_ERROR(Advance());
      return CompareOp::kNotIn;
    }
    return std::nullopt;
  }

  Result Compare() {
    ASSIGN_OR_RETURN(NodePointer first, Operators(0));
    std::shared_ptr<Node> node = Make(Node::Kind::kCompare, token_.column, {first});
    while (true) {
      const uint16_t column = token_.column;
      ASSIGN_OR_RETURN(std::optional<CompareOp> op, TakeCompareOp());
      if (!op.has_value()) break;
      ASSIGN_OR_RETURN(NodePointer next, Operators(0));
      node->compares.push_back(*op);
      node->compare_columns.push_back(column);
      node->children.push_back(next);
    }
    if (node->compares.empty()) return first;
    return node;
  }

  // The operators with two operands, by how tight they bind; all group to the left.
  struct OperatorTraits {
    absl::string_view symbol;
    BinaryOp op;
    int tightness;
  };
  const OperatorTraits* OperatorHere() const {
    static constexpr OperatorTraits kOperators[] = {
        {"*", BinaryOp::kMultiply, 5},     {"/", BinaryOp::kDivide, 5},
        {"//", BinaryOp::kFloorDivide, 5}, {"%", BinaryOp::kModulo, 5},
        {"+", BinaryOp::kAdd, 4},          {"-", BinaryOp::kSubtract, 4},
        {"<<", BinaryOp::kShiftLeft, 3},   {">>", BinaryOp::kShiftRight, 3},
        {"&", BinaryOp::kBitAnd, 2},       {"^", BinaryOp::kBitXor, 1},
        {"|", BinaryOp::kBitOr, 0}};
    if (token_.kind != Token::Kind::kSymbol) return nullptr;
    const auto* found =
        std::find_if(std::begin(kOperators), std::end(kOperators),
                     [this](const OperatorTraits& traits) { return token_.text == traits.symbol; });
    return found == std::end(kOperators) ? nullptr : found;
  }

  // A chain of operators that bind at least this tight.
  Result Operators(int tightness) {
    ASSIGN_OR_RETURN(NodePointer left, Unary());
    while (true) {
      const OperatorTraits* traits = OperatorHere();
      if (traits == nullptr || traits->tightness < tightness) return left;
      ASSIGN_OR_RETURN(left,
                       Binary(traits->op, left, [&] { return Operators(traits->tightness + 1); }));
    }
  }

  // The current token is the operator.
  template <typename Operand>
  Result Binary(BinaryOp op, NodePointer left, Operand operand) {
    const uint16_t column = token_.column;
    RETURN_IF_ERROR(Advance());
    ASSIGN_OR_RETURN(NodePointer right, operand());
    std::shared_ptr<Node> node = Make(Node::Kind::kBinary, column, {std::move(left), right});
    node->binary = op;
    return node;
  }

  Result Unary() {
    const std::optional<UnaryOp> op = AtSymbol("-")   ? std::optional(UnaryOp::kNegate)
                                      : AtSymbol("+") ? std::optional(UnaryOp::kPlus)
                                      : AtSymbol("~") ? std::optional(UnaryOp::kInvert)
                                                      : std::nullopt;
    if (!op.has_value()) return Power();
    return Prefix(*op, [this] { return Unary(); });
  }

  // Binds tighter than a sign on its left, looser than one on its right: -2 ** -1 is -(2 ** (-1)).
  Result Power() {
    ASSIGN_OR_RETURN(NodePointer base, Primary());
    if (!AtSymbol("**")) return base;
    Level level(&depth_);
    if (depth_ > kMaxNesting) {
      return Error(token_.column, absl::StrCat("more than ", kMaxNesting, " levels of nesting"));
    }
    return Binary(BinaryOp::kPower, base, [this] { return Unary(); });
  }

  Result Primary() {
    const Token token = token_;
    switch (token.kind) {
      case Token::Kind::kEnd:
        return Unexpected();
      case Token::Kind::kName:
        return Name();
      case Token::Kind::kNumber:
      case Token::Kind::kText: {
        std::shared_ptr<Node> node = Make(Node::Kind::kLiteral, token.column);
        node->value =
            token.kind == Token::Kind::kText ? Value(std::string(token.text)) : token.value;
        RETURN_IF_ERROR(Advance());
        return node;
      }
      case Token::Kind::kSymbol:
        break;
    }
    if (AtSymbol("[")) {
      ASSIGN_OR_RETURN(std::vector<NodePointer> items, Items("[", "]"));
      return Make(Node::Kind::kList, token.column, std::move(items));
    }
    return Parenthesised();
  }

  // Parses an expression in brackets, or a tuple, which is a list.
  Result Parenthesised() {
    const uint16_t column = token_.column;
    RETURN_IF_ERROR(Expect("("));
    ASSIGN_OR_RETURN(NodePointer first, Conditional());
    if (!AtSymbol(",")) {
      RETURN_IF_ERROR(Expect(")"));
      return first;
    }
    ASSIGN_OR_RETURN(std::vector<NodePointer> items, Items(",", ")"));
    items.insert(items.begin(), std::move(first));
    return Make(Node::Kind::kList, column, std::move(items));
  }

  Result Name() {
    const Token token = token_;
    if (token.text == "True" || token.text == "False") {
      std::shared_ptr<Node> node = Make(Node::Kind::kLiteral, token.column);
      node->value = token.text == "True";
      RETURN_IF_ERROR(Advance());
      return node;
    }
    const std::optional<Function> function = FunctionNamed(token.text);
    if (IsReservedName(token.text) && !function.has_value()) return Unexpected();
    RETURN_IF_ERROR(Advance());
    if (function.has_value()) return Call(token, *function);
    if (AtSymbol("(")) {
      return Error(token.column, absl::StrCat("unknown function '", token.text,
                                              "' (known: ", FunctionNames(), ")"));
    }
    std::shared_ptr<Node> node = Make(Node::Kind::kName, token.column);
    node->name = std::string(token.text);
    names_->push_back(node->name);
    return node;
  }

  Result Call(const Token& token, Function function) {
    if (!AtSymbol("(")) return Unexpected();
    ASSIGN_OR_RETURN(std::vector<NodePointer> arguments, Items("(", ")"));
    const ArgumentCount count = ArgumentsOf(function);
    if (arguments.size() < count.least || arguments.size() > count.most) {
      return Error(
          token.column,
          absl::StrCat(token.text, " takes ", count.least,
                       count.most == count.least ? "" : absl::StrCat(" to ", count.most),
                       count.most == 1 ? " argument, not " : " arguments, not ", arguments.size()));
    }
    std::shared_ptr<Node> node = Make(Node::Kind::kCall, token.column, std::move(arguments));
    node->function = function;
    return node;
  }

  // Items between brackets, separated by commas; one may follow the last.
  absl::StatusOr<std::vector<NodePointer>> Items(absl::string_view open, absl::string_view close) {
    std::vector<NodePointer> items;
    RETURN_IF_ERROR(Expect(open));
    while (!AtSymbol(close)) {
      ASSIGN_OR_RETURN(NodePointer item, Conditional());
      items.push_back(std::move(item));
      if (!AtSymbol(",")) break;
      RETURN_IF_ERROR(Advance());
    }
    RETURN_IF_ERROR(Expect(close));
    return items;
  }

  const std::string& text_;
  Lexer lexer_;
  std::vector<std::string>* names_;
  Token token_;
  int depth_ = 0;
};

}  // namespace

std::string AtColumn(uint16_t column, const std::string& text) {
  constexpr size_t kShown = 160;
  if (text.size() <= kShown) return absl::StrCat(" at column ", column, " of '", text, "'");
  const size_t start = column > kShown / 2 ? column - kShown / 2 : 0;
  return absl::StrCat(" at column ", column, " of '", start > 0 ? "..." : "",
                      text.substr(start, kShown), start + kShown < text.size() ? "..." : "", "'");
}

std::string WriteInstead(absl::string_view word) {
  static constexpr std::pair<absl::string_view, absl::string_view> kWords[] = {
      {"&&", "and"},    {"||", "or"},     {"!", "not"},       {"?", "a if condition else b"},
      {"=", "=="},      {"AND", "and"},   {"OR", "or"},       {"NOT", "not"},
      {"true", "True"}, {"TRUE", "True"}, {"false", "False"}, {"FALSE", "False"}};
  for (const auto& [other, instead] : kWords) {
    if (other == word) return absl::StrCat("; write '", instead, "'");
  }
  return "";
}

absl::StatusOr<NodePointer> ParseNode(const std::string& text, std::vector<std::string>* names) {
  if (text.size() > kMaxExpressionLength) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expression has ", text.size(), " characters; the most is ", kMaxExpressionLength));
  }
  ASSIGN_OR_RETURN(NodePointer root, Parser(text, names).Parse());
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
  return root;
}

}  // namespace tune
