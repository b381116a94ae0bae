// SPDX-License-Identifier: Apache-2.0
// PostgreSQL's client library, opened when a store first names a server. It is never linked: the
// programs start on a host without it, and those of a relocatable folder use the host's, with the
// TLS and Kerberos libraries that the host keeps up to date.
#pragma once

#include <libpq-fe.h>

#include "absl/status/statusor.h"

namespace tune::db {

// The functions of libpq that the store uses, under libpq's names.
struct Libpq {
#define TUNE_LIBPQ(name) decltype(&::name) name = nullptr;
#include "db/libpq_functions.inc"
#undef TUNE_LIBPQ
};

// The library of this process. FAILED_PRECONDITION, with the package to install, if the host has
// none.
absl::StatusOr<const Libpq*> LoadLibpq();

}  // namespace tune::db
