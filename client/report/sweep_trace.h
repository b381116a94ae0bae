// SPDX-License-Identifier: Apache-2.0
// A sweep's own timeline, for ui.perfetto.dev and chrome://tracing: where its time went.
#pragma once

#include <string>
#include <vector>

#include "tune/v1/job.pb.h"
#include "tune/v1/trial.pb.h"

namespace tune::client {

// JSON of Chrome's trace events: the wait in the queue, each trial on the device, and the compiles.
// Trials are stored with the end and the time of their measurement, which places them exactly. The
// best are measured again by turns, so that they are one block. Of a compile the time alone is
// stored: it is drawn as late as it can have run, which is before its trial was measured.
std::string TraceJson(const v1::Job& job, const std::vector<v1::Trial>& trials);

}  // namespace tune::client
