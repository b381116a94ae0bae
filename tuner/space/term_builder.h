// SPDX-License-Identifier: Apache-2.0
// Turns expressions into terms. Internal to tuner/space.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/expression/ast.h"
#include "tuner/space/space.h"
#include "tuner/space/term.h"

namespace tune {

class TermBuilder {
 public:
  // `definition` must outlive the builder.
  explicit TermBuilder(const SpaceDefinition& definition);

  // The truth value of an expression. nullopt if terms cannot express it: with lists that are not
  // constant, text that is concatenated, or a param of numbers and text.
  std::optional<TermId> Truth(const Expression::Node& node);

  const TermGraph& graph() const { return graph_; }
  // The word of each value of each param. Empty for a param that terms cannot hold.
  const std::vector<std::vector<Word>>& param_words() const { return words_; }

 private:
  using Result = std::optional<TermId>;

  void AddParam(size_t param);
  Result Name(const std::string& name);
  Result Constant(const Value& value);
  Result ValueOf(const Expression::Node& node);
  Result Unary(const Expression::Node& node);
  Result Binary(const Expression::Node& node);
  Result Call(const Expression::Node& node);
  Result Extreme(TermOp op, TermOp real_op, const std::vector<NodePointer>& arguments);
  Result Compare(const Expression::Node& node);
  Result CompareTwo(CompareOp op, TermId left, TermId right);
  Result IsIn(const Expression::Node& item, const Expression::Node& list);
  Result Logic(TermOp op, Result left, Result right);
  Result Select(Result condition, Result then, Result otherwise);
  Result TruthOf(TermId term);
  Result ToReal(TermId term);
  Result Chain(TermOp op, TermId left, TermId right);
  Result Apply(TermOp op, TermType type, std::vector<TermId> operands, Word word = 0);
  Result IntegerConstant(Word word);
  Result RealConstant(double real);

  Result Intern(Term term);
  const Term& At(TermId id) const { return graph_.terms[id]; }

  const SpaceDefinition& definition_;
  TermGraph graph_;
  std::vector<std::vector<Word>> words_;
  std::map<std::string, Result> names_;  // params and, once needed, lets and constants
  std::map<std::string, const SpaceLet*> lets_;
  std::map<std::string, Word> texts_;
  std::map<std::vector<Word>, Word> sets_;  // where each is in the graph's sets
};

}  // namespace tune
