// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_convert.h"

#include "server/wire/nouns.h"
#include "tuner/sweep/winner.h"

namespace tune::server {

v1::Record ToProto(const db::RecordRow& record) {
  const Trial& trial = record.trial;
  auto proto = Encoded<v1::Record>(record, {"key", "trial"});
  Encode(record.key, proto);
  proto.set_trial_id(trial.id);
  proto.set_sweep_id(trial.sweep_id);
  *proto.mutable_config() = ToProto(trial.config);
  *proto.mutable_measurement() = ToProto(trial.measurement, Samples::kOmit);
  Encode(trial.resources, *proto.mutable_resources());
  Encode(trial.telemetry, *proto.mutable_telemetry());
  proto.set_too_noisy(TooNoisyToTell(trial.measurement));
  return proto;
}

}  // namespace tune::server
