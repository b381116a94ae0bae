// SPDX-License-Identifier: Apache-2.0
// Restricts the files that a kernel's source may read. Compilers open any file that an #include
// names and print its first lines as errors, so a source from elsewhere is checked before a
// compiler sees it.
#pragma once

#include "absl/status/status.h"
#include "tuner/plan.h"

namespace tune {

// INVALID_ARGUMENT with file and line, if the source, a header or the value of a macro of `plan`
// could make its compiler read a file that is neither in the plan nor one of the compiler's own
// headers. Names that a macro would make up are refused, since they cannot be checked.
absl::Status CheckIncludes(const CompilePlan& plan);

}  // namespace tune
