// SPDX-License-Identifier: Apache-2.0
// Tests the walls: attempts each act that they must prevent.
#pragma once

#include "server/worker/walls.h"
#include "tune/v1/walls.pb.h"
#include "tune/worker/v1/worker.pb.h"

namespace tune::server {

// Run it from the main thread of a process that is discarded afterwards, once its walls stand.
// The request's file is one of the daemon's that no worker may reach, in a folder like the store's.
// No attempt does harm even if it succeeds: the file is empty, no signal with an effect is sent,
// and memory is returned after two seconds.
v1::WorkerWalls TryWalls(const Walls& walls, const worker::v1::TryWalls& request);

}  // namespace tune::server
