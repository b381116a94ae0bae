// SPDX-License-Identifier: Apache-2.0
// A ceiling: a measured limit of a device, with which rates are compared.
#pragma once

#include <string>

#include "base/fields.h"
#include "tuner/trial.h"

namespace tune {

// The resource that a ceiling limits. Values are stored and sent: do not renumber.
enum class CeilingKind {
  kUnknown = 0,
  kDram = 1,
  kL3 = 2,
  kL2 = 3,
  kL1 = 4,
  kShared = 5,
  kVector = 6,
  kTensor = 7,
  kLink = 8,
  kLaunch = 9,
};

// How long the load lasts: power limits lower compute ceilings after a while.
enum class CeilingPolicy { kBurst = 1, kSustained = 2 };

// How a ceiling is known: from what its maker says, or by a probe.
enum class CeilingSource { kUnknown = 0, kNominal = 1, kMeasured = 2 };

struct Ceiling {
  std::string name;  // "dram_copy" in bytes/s; "f32", "tensor_bf16", ... in FLOP/s; "launch" in ns
  double value = 0;
  CeilingSource source = CeilingSource::kNominal;
  CeilingKind kind = CeilingKind::kUnknown;
  CeilingPolicy policy = CeilingPolicy::kBurst;
  std::string probe;       // what reached it: "copy_4, 512 threads"
  double theoretical = 0;  // from clocks, widths and units; 0 if not known
  // Over fresh processes, once there are several.
  double low = 0;
  double high = 0;
  int process_count = 1;
  Telemetry telemetry;  // right after
  std::string note;
};
TUNE_FIELDS(Ceiling, name, value, source, kind, policy, probe, theoretical, low, high,
            process_count, telemetry, note);

// The unit of its values: "B/s", "FLOP/s", "OP/s", "ns".
std::string UnitOf(const Ceiling& ceiling);

}  // namespace tune
