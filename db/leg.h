// SPDX-License-Identifier: Apache-2.0
// A leg as a row: a program measured once in one process of a session, for a gate or a comparison.
// A row has all samples, so that every verdict and figure can be computed again. The trials of a
// sweep are rows of their own (tuner/trial.h): docs/schema.md says why.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "tuner/gate/round.h"
#include "tuner/trial.h"

namespace tune::db {

// Why a leg was measured. The first are the stages of a gate. Values are stored: do not renumber.
enum class LegPurpose { kScreen = 1, kConfirm = 2, kRecovery = 3, kComparison = 4 };

inline LegPurpose ToPurpose(gate::Stage stage) { return static_cast<LegPurpose>(stage); }
// REQUIRES: the leg is a gate's.
inline gate::Stage ToStage(LegPurpose purpose) { return static_cast<gate::Stage>(purpose); }

struct LegRow {
  int64_t id = 0;
  int64_t job_id = 0;          // that measured it
  int64_t gate_kernel_id = 0;  // 0: it is a comparison's
  int64_t compared_id = 0;     // 0: it is a gate's
  LegPurpose purpose = LegPurpose::kScreen;
  int round = 0;  // of the job; a gate's stages count on
  gate::Leg leg;
  Outcome outcome = Outcome::kOk;
  std::string message;
};
TUNE_FIELDS(LegRow, id, job_id, gate_kernel_id, compared_id, purpose, round, leg, outcome, message);

}  // namespace tune::db
