// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/dynamic_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune::cuda {

absl::StatusOr<void*> OpenLibrary(const std::vector<std::string>& names,
                                  const std::vector<std::string>& dirs, const std::string& remedy) {
  std::string reason;
  for (const std::string& dir : dirs) {
    for (const std::string& name : names) {
      std::string path = absl::StrCat(dir, "/", name);
      if (access(path.c_str(), R_OK) != 0) continue;
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      reason = dlerror();
    }
  }
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    if (reason.empty()) reason = dlerror();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot open ", absl::StrJoin(names, " or "), " (", reason, "): ", remedy));
}

absl::Status FindSymbol(void* library, const char* name, const std::string& remedy,
                        void** function) {
  *function = dlsym(library, name);
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the library is too old, it lacks ", name, ": ", remedy));
}

}  // namespace tune::cuda
