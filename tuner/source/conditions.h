// SPDX-License-Identifier: Apache-2.0
// Which lines of a file a compiler reads, as far as #if and its like depend on what a plan says.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tuner/plan.h"
#include "tuner/source/source_lines.h"

namespace tune {

enum class Holds { kNo, kMaybe, kYes };

// Follows the conditions of one file, line by line.
class Conditions {
 public:
  // `macros` are known to be defined; outlives this.
  Conditions(const CompilePlan& plan, const std::set<std::string>& macros);

  // Reads a line that begins with "#". `guard`: it is the "#ifndef X" ahead of a "#define X".
  void Read(const SourceLine& line, bool guard = false);

  // Returns whether all open conditions hold.
  Holds Around() const;

 private:
  struct Condition {
    Holds now = Holds::kMaybe;   // of the branch that is being read
    Holds earlier = Holds::kNo;  // of any branch before it
    Holds around = Holds::kYes;  // of the conditions that it stands in
  };
  using Tokens = std::vector<SourceToken>;

  Holds IsDefined(const std::string& name) const;
  Holds Evaluate(const Tokens& tokens, size_t from) const;
  Holds EvaluateTerm(const Tokens& tokens, size_t from, size_t end) const;
  Holds EvaluateOperand(const Tokens& tokens, size_t from, size_t end) const;
  void Branch(Holds holds);

  const bool cpu_;
  const std::set<std::string>& macros_;
  std::vector<Condition> conditions_;
};

}  // namespace tune
