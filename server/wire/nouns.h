// SPDX-License-Identifier: Apache-2.0
// Between messages and the tuner's nouns that both protocols carry, a worker's and the clients'.
#pragma once

#include <string>

#include "tune/v1/trial.pb.h"
#include "tuner/config.h"
#include "tuner/problem.h"
#include "tuner/trial.h"
#include "tuner/value.h"

namespace tune::server {

// Protobuf refuses to parse a string that is not UTF-8, and compilers, drivers and kernels may say
// anything: each byte that is not part of a character becomes a '?'. A NUL becomes the two
// characters \0: where it is printed as a C string, what follows would be lost.
std::string Utf8(const std::string& text);

v1::Value ToProto(const Value& value);
v1::Resources ToProto(const Resources& resources);
v1::Telemetry ToProto(const Telemetry& telemetry);
v1::ResultError ToProto(const ResultError& error);

Resources FromProto(const v1::Resources& proto);
Telemetry FromProto(const v1::Telemetry& proto);
ResultError FromProto(const v1::ResultError& proto);

enum class Samples { kInclude, kOmit };

v1::Config ToProto(const Config& config);
v1::Problem ToProto(const Problem& problem);
v1::Measurement ToProto(const Measurement& measurement, Samples samples);
v1::Trial ToProto(const Trial& trial, Samples samples = Samples::kOmit);
v1::CacheMode ToProto(CacheMode mode);

CacheMode FromProto(v1::CacheMode mode);  // unspecified: cold
Value FromProto(const v1::Value& value);
Config FromProto(const v1::Config& config);

}  // namespace tune::server
