// SPDX-License-Identifier: Apache-2.0
// Checks of a daemon, or of the server inside tunectl, by its status and its devices. Pure: the
// caller asks for both.
#pragma once

#include <cstdint>
#include <string>

#include "tune/v1/device.pb.h"
#include "tune/v1/doctor.pb.h"
#include "tune/v1/server.pb.h"

namespace tune::client {

// Version, disk, store, files, certificate. `version`: of this tunectl.
void CheckServer(const v1::ServerStatus& server, const std::string& version, int64_t now_unix_ms,
                 v1::Diagnosis& diagnosis);
// The walls of each worker program, which either message has.
void CheckWalls(const v1::ServerStatus& server, const v1::ListDevicesResponse& devices,
                v1::Diagnosis& diagnosis);
// Each device: its state, its toolkit and compilers, its clock, the age of its ceilings.
void CheckDevices(const v1::ListDevicesResponse& devices, v1::Diagnosis& diagnosis);

}  // namespace tune::client
