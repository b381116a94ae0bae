// SPDX-License-Identifier: Apache-2.0
// The least role that each call needs. docs/access.md has the same table; a test compares them.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "db/token.h"

namespace tune::server {

// Of "/tune.v1.SweepService/SubmitSweep". Nothing for a call that has no line: nobody may make it.
std::optional<db::Role> RoleFor(absl::string_view path);

}  // namespace tune::server
