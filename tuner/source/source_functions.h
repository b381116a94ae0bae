// SPDX-License-Identifier: Apache-2.0
// What a source's text says of a kernel's function: where it is declared, as what, with which
// parameters. Text tells what no artifact does: names and lines. It is read without its conditions
// and without expanding macros, so what is not found may still be there. Of languages other than
// C++ nothing is found.
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
// the source, in whatever config: it is not there, not __global__, or has no body. Empty if each is
// one, or if the text cannot tell.
std::string WhyNoKernel(const CompilePlan& plan);

// The declaration of an entry that tells most; a function without a line if there is none.
SourceFunction EntryOf(const CompilePlan& plan, const std::string& entry);

// The name that a parameter is declared by: "x" of "const float* x"; empty if it has none.
std::string NameOfParameter(const std::string& parameter);

// "softmax.cu:12", or only the file if the line is not known.
std::string PlaceOf(const CompilePlan& plan, const SourceFunction& function);

}  // namespace tune
