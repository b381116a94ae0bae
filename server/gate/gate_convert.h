// SPDX-License-Identifier: Apache-2.0
// Gate runs for the wire.
#pragma once

#include <map>

#include "db/gate.h"
#include "server/gate/gate_evidence.h"
#include "server/gate/gate_runner.h"
#include "tune/v1/gate.pb.h"

namespace tune::server {

v1::GateRun ToProto(const db::GateRunRow& run);  // without kernels
enum class Rounds { kInclude, kOmit };
v1::GateRun ToProto(const GateEvidence& evidence,
                    const std::map<int64_t, gate::Judgement>& verdicts, Rounds rounds);
v1::GateProgress ToProto(const GateStep& step);
v1::BaselineKernel ToProto(const db::BaselineRow& row);

}  // namespace tune::server
