// SPDX-License-Identifier: Apache-2.0
// Whether the walls hold: attempts each act that they are to prevent.
#pragma once

#include <string>

#include "server/worker/walls.h"
#include "tune/v1/walls.pb.h"

namespace tune::server {

// For a process that is thrown away afterwards, from its main thread, when its walls are up.
// `planted_file` is a file of the daemon's that no worker may reach, in a folder like the store's;
// `daemon` the process that none may touch. Nothing that is attempted harms either, even if it
// succeeds: the file holds nothing, and the process is sent no signal that does something.
v1::WorkerWalls TryWalls(const Walls& walls, const std::string& planted_file, int daemon);

}  // namespace tune::server
