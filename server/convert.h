// SPDX-License-Identifier: Apache-2.0
// Between the wire and the nouns of tuner and db, beside what server/worker/trial_proto.h has.
// Proto types stay here and in the services.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/store.h"
#include "grpcpp/support/status.h"
#include "server/devices.h"
#include "server/sweep_view.h"
#include "server/worker/trial_proto.h"
#include "tune/v1/device.pb.h"
#include "tune/v1/record.pb.h"
#include "tune/v1/sweep.pb.h"
#include "tune/v1/trial.pb.h"
#include "tuner/config.h"
#include "tuner/problem.h"
#include "tuner/trial.h"

namespace tune::server {

// The codes have the same names and numbers.
grpc::Status ToGrpc(const absl::Status& status);

enum class Samples { kInclude, kOmit };

v1::Config ToProto(const Config& config);
v1::Problem ToProto(const Problem& problem);
v1::Measurement ToProto(const Measurement& measurement, Samples samples);
v1::Trial ToProto(const Trial& trial, Samples samples = Samples::kOmit);
v1::Record ToProto(const db::RecordRow& record);
v1::Sweep ToProto(const SweepView& view);
v1::SweepState ToProto(db::SweepState state);
v1::CacheMode ToProto(CacheMode mode);
v1::Device ToProto(const DeviceView& view);

CacheMode FromProto(v1::CacheMode mode);  // unspecified: cold
Value FromProto(const v1::Value& value);
Config FromProto(const v1::Config& config);

// What a finished sweep shows besides its row and its trials, as JSON for SweepRow::summary.
std::string SummaryText(const SweepView& view);
// Restores progress and the roof of the result from a row's summary; the result's trials are for
// the caller to fill in. DATA_LOSS if the text is not a summary.
absl::StatusOr<SweepView> FromSummaryText(const db::SweepRow& row);

}  // namespace tune::server
