// SPDX-License-Identifier: Apache-2.0
// Principals: the callers of a daemon, and the rights of their roles.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/job.h"
#include "db/token.h"

namespace tune::server {

struct Principal {
  std::string name;  // of a user, a certificate or a token; one name is one principal
  db::Role role = db::Role::kNone;
};

// "reader", "submitter", "operator"; "none".
std::string ToText(db::Role role);
// INVALID_ARGUMENT names the existing roles.
absl::StatusOr<db::Role> ParseRole(absl::string_view text);

// INVALID_ARGUMENT: not a letter and then letters, digits and "._@-", or more than 64.
absl::Status CheckPrincipalName(absl::string_view name);

// The name space of the kernels that a principal brings: "" is shared by the catalogue and all
// operators; each submitter has its own. No two principals have the same, whatever their names are.
std::string NameSpaceOf(const Principal& principal);
// The name of a principal without slashes and the like; different names stay different.
std::string PathNameOf(absl::string_view name);

// "attention", "alice/attention".
std::string NameIn(absl::string_view name_space, absl::string_view kernel_name);
// The name space of such a name: "", "alice".
std::string NameSpaceIn(absl::string_view name);

// PERMISSION_DENIED, with the owner, unless the principal is the owner of the job or an operator.
absl::Status CheckMayCancel(const Principal& principal, const db::JobRow& job);
absl::Status CheckMayCancelJobsOf(const Principal& principal, const std::string& owner);

}  // namespace tune::server
