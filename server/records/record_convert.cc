// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_convert.h"

#include "server/wire/nouns.h"
#include "tuner/sweep/winner.h"

namespace tune::server {

v1::Record ToProto(const db::RecordRow& record) {
  v1::Record proto;
  proto.set_id(record.id);
  proto.set_kernel_name(record.kernel_name);
  proto.set_kernel_hash(record.key.kernel_hash);
  *proto.mutable_problem() = ToProto(record.key.problem);
  proto.set_device_name(record.key.device_name);
  proto.set_target(record.key.target);
  proto.set_cache_mode(ToProto(record.key.cache_mode));
  *proto.mutable_config() = ToProto(record.trial.config);
  *proto.mutable_measurement() = ToProto(record.trial.measurement, Samples::kOmit);
  if (record.trial.measurement.samples_ns.empty()) {
    proto.mutable_measurement()->set_sample_count(record.sample_count);
  }
  proto.set_default_latency_ns(record.default_latency_ns);
  proto.set_sweep_id(record.trial.sweep_id);
  proto.set_trial_id(record.trial.id);
  proto.set_driver(record.key.driver);
  proto.set_compiler(record.key.compiler);
  proto.set_published_unix_ms(record.published_unix_ms);
  proto.set_tie_count(record.tie_count);
  for (const db::RecordTie& tie : record.ties) {
    v1::Tie& shown = *proto.add_ties();
    *shown.mutable_config() = ToProto(tie.config);
    shown.set_latency_ns_median(tie.latency_ns);
  }
  *proto.mutable_resources() = ToProto(record.trial.resources);
  *proto.mutable_telemetry() = ToProto(record.trial.telemetry);
  proto.set_seed(record.seed);
  proto.set_too_noisy(TooNoisyToTell(record.trial.measurement));
  return proto;
}

}  // namespace tune::server
