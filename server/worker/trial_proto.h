// SPDX-License-Identifier: Apache-2.0
// The parts of a trial that both protocols carry, a worker's and the clients'.
#pragma once

#include <string>

#include "tune/v1/trial.pb.h"
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

}  // namespace tune::server
