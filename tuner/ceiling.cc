// SPDX-License-Identifier: Apache-2.0
#include "tuner/ceiling.h"

#include "absl/strings/match.h"

namespace tune {

std::string UnitOf(const Ceiling& ceiling) {
  switch (ceiling.kind) {
    case CeilingKind::kLaunch:
      return "ns";
    case CeilingKind::kVector:
    case CeilingKind::kTensor:
      return absl::StrContains(ceiling.name, "_i8") ? "OP/s" : "FLOP/s";
    case CeilingKind::kUnknown:
      return absl::StartsWith(ceiling.name, "dram") ? "B/s" : "FLOP/s";
    default:
      return "B/s";
  }
}

}  // namespace tune
