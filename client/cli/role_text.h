// SPDX-License-Identifier: Apache-2.0
// Roles as people write them.
#pragma once

#include <optional>
#include <string>

#include "tune/v1/access.pb.h"

namespace tune::client {

inline std::string RoleText(v1::PrincipalRole role) {
  switch (role) {
    case v1::PRINCIPAL_ROLE_READER:
      return "reader";
    case v1::PRINCIPAL_ROLE_SUBMITTER:
      return "submitter";
    case v1::PRINCIPAL_ROLE_OPERATOR:
      return "operator";
    default:
      return "no role";
  }
}

inline std::optional<v1::PrincipalRole> RoleOf(const std::string& text) {
  for (const auto role :
       {v1::PRINCIPAL_ROLE_READER, v1::PRINCIPAL_ROLE_SUBMITTER, v1::PRINCIPAL_ROLE_OPERATOR}) {
    if (RoleText(role) == text) return role;
  }
  return std::nullopt;
}

}  // namespace tune::client
