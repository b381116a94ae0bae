// SPDX-License-Identifier: Apache-2.0
// The walls around a worker, in words.
#pragma once

#include <string>

#include "tune/v1/walls.pb.h"

namespace tune::client {

// "tune-device-cpu: files, modes, ... stand (Landlock 7)", and before that what is missing.
std::string WallsText(const v1::WorkerWalls& walls);

}  // namespace tune::client
