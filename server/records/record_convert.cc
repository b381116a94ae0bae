// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_convert.h"

#include <string>

#include "base/status_macros.h"
#include "server/wire/nouns.h"
#include "tuner/trial.h"

namespace tune::server {

v1::Record ToProto(const lookup::Record& record) {
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

absl::StatusOr<lookup::Record> FromProto(const v1::Record& proto) {
  ASSIGN_OR_RETURN(lookup::Record record, Decoded<lookup::Record>(proto, {"key", "trial"}));
  RETURN_IF_ERROR(Decode(proto, record.key));
  Trial& trial = record.trial;
  trial.id = proto.trial_id();
  trial.sweep_id = proto.sweep_id();
  trial.config = FromProto(proto.config());
  trial.outcome = Outcome::kOk;
  RETURN_IF_ERROR(Decode(proto.measurement(), trial.measurement));
  RETURN_IF_ERROR(Decode(proto.resources(), trial.resources));
  RETURN_IF_ERROR(Decode(proto.telemetry(), trial.telemetry));
  return record;
}

void AddRecord(const lookup::Record& record, absl::string_view on_wire,
               v1::LookupResponse& response) {
  if (on_wire.empty()) {
    *response.mutable_record() = ToProto(record);
    return;
  }
  response.GetReflection()->MutableUnknownFields(&response)->AddLengthDelimited(
      v1::LookupResponse::kRecordFieldNumber, std::string(on_wire));
}

}  // namespace tune::server
