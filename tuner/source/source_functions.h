// SPDX-License-Identifier: Apache-2.0
// Finds the declaration of a kernel's function in its source: file, line, parameters, which no
// artifact gives. The text is read without its conditions and without expanding macros, so a
// function that is not found may still exist. Finds nothing in languages other than C++.
#pragma once

#include <string>
#include <vector>

#include "tuner/plan.h"

namespace tune {

struct SourceFunction {
  std::string name;
  std::string file;
  int line = 0;                         // of its name
  bool global = false;                  // __global__, by itself or by a macro of the source
  bool defined = false;                 // has a body
  std::vector<std::string> parameters;  // as written: "const float* x"
};

// Every declaration of functions at namespace scope, in the order of the files.
std::vector<SourceFunction> FunctionsOf(const CompilePlan& plan);

// "softmax.cu:12: 'softmax' is no kernel: ..." if one of the plan's entries is surely no kernel of
// the source, in whatever config: it is missing, not __global__, or has no body. Empty if each is
// one, or if the text does not decide.
std::string WhyNoKernel(const CompilePlan& plan);

// The most detailed declaration of an entry; a function without a line if there is none.
SourceFunction EntryOf(const CompilePlan& plan, const std::string& entry);

// The name that a parameter is declared by: "x" of "const float* x"; empty if it has none.
std::string NameOfParameter(const std::string& parameter);

// "softmax.cu:12", or only the file if the line is not known.
std::string PlaceOf(const CompilePlan& plan, const SourceFunction& function);

}  // namespace tune
