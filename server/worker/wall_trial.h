// SPDX-License-Identifier: Apache-2.0
// Tests the walls: attempts each act that they must prevent.
#pragma once

#include <string>

#include "server/worker/walls.h"
#include "tune/v1/walls.pb.h"

namespace tune::server {

// Run it from the main thread of a process that is discarded afterwards, once its walls stand.
// `planted_file` is a file of the daemon's that no worker may reach, in a folder like the store's;
// `daemon` is the process that no worker may touch. No attempt does harm even if it succeeds: the
// file is empty, and no signal with an effect is sent.
v1::WorkerWalls TryWalls(const Walls& walls, const std::string& planted_file, int daemon);

}  // namespace tune::server
