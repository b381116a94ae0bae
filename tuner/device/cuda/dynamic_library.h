// SPDX-License-Identifier: Apache-2.0
// CUDA's libraries, opened at run time so that our programs start on a host without them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::cuda {

// Opens the first of `names` found in `dirs`, else by the loader's own search. The library stays
// loaded until the process ends: CUDA's libraries do not survive being unloaded.
// FAILED_PRECONDITION says what is missing and ends with `remedy`.
absl::StatusOr<void*> OpenLibrary(const std::vector<std::string>& names,
                                  const std::vector<std::string>& dirs, const std::string& remedy);

// Fills `function` with the symbol's address. FAILED_PRECONDITION if the library lacks it.
absl::Status FindSymbol(void* library, const char* name, const std::string& remedy,
                        void** function);

}  // namespace tune::cuda

// A table of functions is a list macro applied twice. Members have the names of the functions after
// macro expansion, so that cuMemAlloc is cuMemAlloc_v2 in the declaration, the look-up and the
// call.
//
//   #define TUNE_NVML_FUNCTIONS(X) X(nvmlInit) X(nvmlShutdown)
//   struct NvmlApi { TUNE_NVML_FUNCTIONS(TUNE_FUNCTION_MEMBER) };
#define TUNE_FUNCTION_MEMBER(name) decltype(&::name) name = nullptr;
#define TUNE_FUNCTION_NAME(name) TUNE_FUNCTION_TEXT_(name)
#define TUNE_FUNCTION_TEXT_(name) #name

// REQUIRES: `api`, `library` and `remedy` are in scope, in a function that returns a Status.
#define TUNE_FUNCTION_FIND(name)                                                      \
  RETURN_IF_ERROR(::tune::cuda::FindSymbol(library, TUNE_FUNCTION_NAME(name), remedy, \
                                           reinterpret_cast<void**>(&api.name)));
