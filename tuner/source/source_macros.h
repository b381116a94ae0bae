// SPDX-License-Identifier: Apache-2.0
// Macros of a spec that the source defines itself: the spec's value then never reaches the kernel,
// and every config of that param is the same one. Compilers say nothing of it.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tuner/plan.h"

namespace tune {

struct Redefinition {
  std::string file;
  int line = 0;
  std::string macro;
  // Surely, whatever the config is; otherwise it stands under a condition that may not hold.
  bool certain = false;
  bool only_undefined = false;  // #undef
};

// Finds lines of the source and headers that define or undefine a macro of `plan` (params, defines,
// DTYPE). Leaves out lines under "#ifndef <macro>", which are a default for other uses of the
// source, and lines that only the reference sees.
std::vector<Redefinition> FindRedefinitions(const CompilePlan& plan);

// "the source redefines BLOCK, a macro of the spec: ..."
std::string ToText(const Redefinition& redefinition);

// A line on the macro of `plan` that a compiler met as a name of the source's or a header's own,
// such as a param T in `template <typename T>`; empty if its first error shows none. `log`: NVRTC's
// or GCC's, which quote the line below its error.
std::string MacroInTheWay(const CompilePlan& plan, absl::string_view log);

}  // namespace tune
