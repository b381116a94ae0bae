// SPDX-License-Identifier: Apache-2.0
// Streams whose events are either a step, for who waits, or a result.
#pragma once

#include "absl/status/status.h"
#include "client/connect/rpc.h"
#include "client/report/terminal.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

// Reads a stream to its end. Steps show on a terminal, in place; every other event goes to
// `result`. Event has the fields of ProfileEvent: has_step() and step().
template <typename Event, typename Result>
absl::Status FollowSteps(grpc::ClientReaderInterface<Event>& reader, Result result) {
  LiveLine live;
  Event event;
  while (reader.Read(&event)) {
    if (event.has_step()) {
      if (IsInteractive()) live.Show(event.step());
      continue;
    }
    live.Clear();
    result(event);
  }
  live.Clear();
  return FromGrpc(reader.Finish());
}

}  // namespace tune::client
