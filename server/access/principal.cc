// SPDX-License-Identifier: Apache-2.0
#include "server/access/principal.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/error_detail.h"

namespace tune::server {
namespace {

constexpr size_t kNameMax = 64;
constexpr db::Role kRoles[] = {db::Role::kReader, db::Role::kSubmitter, db::Role::kOperator};

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains("._@-", absl::string_view(&c, 1));
}

}  // namespace

std::string ToText(db::Role role) {
  switch (role) {
    case db::Role::kReader:
      return "reader";
    case db::Role::kSubmitter:
      return "submitter";
    case db::Role::kOperator:
      return "operator";
    default:
      return "none";
  }
}

absl::StatusOr<db::Role> ParseRole(absl::string_view text) {
  for (const db::Role role : kRoles) {
    if (ToText(role) == text) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("role '", text, "'; there is: reader, submitter, operator"));
}

absl::Status CheckPrincipalName(absl::string_view name) {
  const bool is_name = !name.empty() && name.size() <= kNameMax &&
                       absl::ascii_isalpha(static_cast<unsigned char>(name.front())) &&
                       std::all_of(name.begin(), name.end(), IsPlain);
  if (is_name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("name '", name,
                   "'; it begins with a letter, has letters, digits and ._@- after it, and at "
                   "most ",
                   kNameMax, " characters"));
}

std::string NameSpaceOf(const Principal& principal) {
  return principal.role == db::Role::kOperator ? "" : PathNameOf(principal.name);
}

std::string PathNameOf(absl::string_view name) {
  if (name.empty()) return "%";
  std::string name_space;
  for (const char c : name) {
    if (IsPlain(c) || c == ':') {
      name_space.push_back(c);
    } else {
      absl::StrAppend(&name_space, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return name_space;
}

std::string NameIn(absl::string_view name_space, absl::string_view kernel_name) {
  return absl::StrCat(name_space, name_space.empty() ? "" : "/", kernel_name);
}

std::string NameSpaceIn(absl::string_view name) {
  const size_t slash = name.rfind('/');
  return std::string(slash == absl::string_view::npos ? "" : name.substr(0, slash));
}

absl::Status CheckMayCancelJobsOf(const Principal& principal, const std::string& owner) {
  if (principal.role == db::Role::kOperator || principal.name == owner) return absl::OkStatus();
  return WithReason(absl::PermissionDeniedError(absl::StrCat(
                        "the jobs of ", owner, ": ", owner,
                        " or an operator can cancel them, and you are ", principal.name)),
                    v1::ERROR_REASON_NOT_ALLOWED);
}

absl::Status CheckMayCancel(const Principal& principal, const db::JobRow& job) {
  if (principal.role == db::Role::kOperator) return absl::OkStatus();
  if (!principal.name.empty() && principal.name == job.owner) return absl::OkStatus();
  return WithReason(
      absl::PermissionDeniedError(absl::StrCat("job ", job.id, " is ", job.owner, "'s: ", job.owner,
                                               " or an operator can cancel it, and "
                                               "you are ",
                                               principal.name)),
      v1::ERROR_REASON_NOT_ALLOWED);
}

}  // namespace tune::server
