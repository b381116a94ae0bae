// SPDX-License-Identifier: Apache-2.0
// How many blocks a kernel's configs have at a problem: from the texts of its launches, without the
// rest of its spec.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tuner/config.h"
#include "tuner/expression/expression.h"

namespace tune {

// A launch as a spec has it: expressions.
struct LaunchText {
  std::string when;  // empty: always
  std::vector<std::string> grid;
  std::vector<std::string> block;  // empty: the compiler decides it
  std::string shared_bytes;        // empty: none
};

// The size of a program's largest launch: the step whose blocks have the most dynamic shared
// memory, and among equals the most threads in all. 0: not known.
struct LaunchSize {
  // The number on a device with unlimited multiprocessors: a grid that takes no more blocks than
  // run at once has one for each piece of its work.
  int64_t blocks = 0;
  int64_t threads = 0;       // of a block
  int64_t shared_bytes = 0;  // dynamic
};

// A kernel's launches, parsed. Immutable. Thread-safe.
class LaunchForm {
 public:
  // An expression that does not parse leaves its sizes unknown.
  LaunchForm(const std::vector<std::pair<std::string, std::string>>& lets,
             const std::vector<LaunchText>& steps);

 private:
  friend class LaunchSizes;
  struct Step {
    std::vector<Expression> when;  // none or one
    std::vector<Expression> grid;
    std::vector<Expression> block;
    std::vector<Expression> shared_bytes;  // none or one
  };

  // The sizes that follow from one set of expressions.
  class Sizes {
   public:
    void Use(std::vector<Step> steps, const std::vector<std::pair<std::string, std::string>>& lets);
    // The values of the params on which sizes depend: equal values give equal sizes.
    std::vector<Value> ParamsOf(const Config& config) const;
    LaunchSize Of(const Config& config, Scope scope) const;

   private:
    std::vector<Step> steps_;
    std::vector<std::pair<std::string, Expression>> lets_;  // those that steps depend on
    std::set<std::string> names_;  // that steps depend on, themselves or by lets
  };

  Sizes whole_;
  Sizes blocks_;
};

// For one problem on one target. Configs that differ only in what launches do not depend on are
// worked out once. Not thread-safe.
class LaunchSizes {
 public:
  // `scope` has the problem's dims, dtype and dtype_bytes, target and sm.
  LaunchSizes(std::shared_ptr<const LaunchForm> form, Scope scope);

  LaunchSize Of(const Config& config) { return Known(form_->whole_, whole_, config); }
  // The blocks alone: of a program of one step, known where its grid is.
  int64_t Blocks(const Config& config) { return Known(form_->blocks_, blocks_, config).blocks; }

 private:
  using ByParams = std::map<std::vector<Value>, LaunchSize>;
  LaunchSize Known(const LaunchForm::Sizes& sizes, ByParams& known, const Config& config) const;

  std::shared_ptr<const LaunchForm> form_;
  Scope scope_;
  ByParams whole_;
  ByParams blocks_;
};

}  // namespace tune
