// SPDX-License-Identifier: Apache-2.0
#include "tuner/counters/counting.h"

namespace tune {

std::string ToText(MetricSet set) {
  switch (set) {
    case MetricSet::kDefault:
      return "default";
    case MetricSet::kFlops:
      return "flops";
    case MetricSet::kTensor:
      return "tensor";
    case MetricSet::kAll:
      return "all";
  }
  return "unknown";
}

}  // namespace tune
