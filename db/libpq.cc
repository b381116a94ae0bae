// SPDX-License-Identifier: Apache-2.0
#include "db/libpq.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tune::db {
namespace {

constexpr char kLibrary[] = "libpq.so.5";

absl::StatusOr<Libpq> Load() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("PostgreSQL's client library cannot be opened: ", dlerror(),
                     "; install it (Debian and Ubuntu: apt install libpq5)"));
  }
  Libpq functions;
  const char* missing = nullptr;
#define TUNE_LIBPQ(name)                                                       \
  functions.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) missing = #name;
#include "db/libpq_functions.inc"
#undef TUNE_LIBPQ
  if (missing == nullptr) return functions;
  return absl::FailedPreconditionError(
      absl::StrCat(kLibrary, " of this host has no ", missing, "; install a newer libpq5"));
}

}  // namespace

absl::StatusOr<const Libpq*> LoadLibpq() {
  static const absl::StatusOr<Libpq> loaded = Load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace tune::db
