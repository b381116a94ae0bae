// SPDX-License-Identifier: Apache-2.0
// The tuner's nouns that both protocols carry, a worker's and the clients', as messages.
#pragma once

#include "server/wire/codec.h"
#include "server/wire/utf8.h"
#include "tune/v1/trial.pb.h"
#include "tuner/config.h"
#include "tuner/problem.h"
#include "tuner/trial.h"
#include "tuner/value.h"

namespace tune::server {

// Into a message that is empty. Every answer has them: this takes a third of what codec.h would.
void Encode(const Value& value, v1::Value& proto);
void Encode(const Config& config, v1::Config& proto);
v1::Value ToProto(const Value& value);
v1::Config ToProto(const Config& config);
inline v1::Problem ToProto(const Problem& problem) { return Encoded<v1::Problem>(problem); }

enum class Samples { kInclude, kOmit };
v1::Measurement ToProto(const Measurement& measurement, Samples samples);
// A trial that was never timed has no measurement.
v1::Trial ToProto(const Trial& trial, Samples samples = Samples::kOmit);

// Reads values of requests, which may be unset: a value without a kind is 0, an unspecified mode
// cold.
Value FromProto(const v1::Value& value);
Config FromProto(const v1::Config& config);
CacheMode FromProto(v1::CacheMode mode);

}  // namespace tune::server
