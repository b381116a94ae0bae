// SPDX-License-Identifier: Apache-2.0
// Steps that all compilers share: they refuse a bad request before it is compiled, and describe
// the result.
#pragma once

#include <string>

#include "tuner/device/compiler.h"
#include "tuner/plan.h"

namespace tune {

// Names and values of macros, names of entries and symbols, options, and what the sources include;
// empty if nothing is wrong.
std::string WhyNotAllowed(const CompilePlan& plan);

// Text appended to a source of CUDA C++, so that its compiler rejects symbols of another size than
// the spec's. Empty without symbols.
std::string SymbolChecks(const CompilePlan& plan);

Artifact Refused(Outcome outcome, std::string log);

// The plan as the front end gets it: without the options that no source reads, such as num_stages,
// which are for the compiler behind it. The front end and its cache see configs that differ in
// nothing else as one.
CompilePlan ForFrontEnd(CompilePlan plan);

// The plan for the compiler behind a front end, which made `front` in `language`. INTERNAL: `front`
// is not in that language.
absl::StatusOr<CompilePlan> Lowered(CompilePlan plan, Language language, const Artifact& front);

// Sets the size and the hash of the binary that is there.
void DescribeBinary(Artifact& artifact);

}  // namespace tune
