// SPDX-License-Identifier: Apache-2.0
#include "client/cli/gate_call.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/interrupt.h"
#include "client/connect/rpc.h"
#include "client/report/gate_report.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kPlainLineEvery = std::chrono::seconds(5);
// A message is sent once it has so much. With another entry, whose sides have 1 MiB at most each,
// it is below the 4 MiB that the server takes.
constexpr size_t kPieceBytes = 1 << 20;

using GateStream = grpc::ClientReaderWriter<v1::RunGateRequest, v1::GateEvent>;

// In pieces, the settings with the first. If the server has heard enough, its status tells why.
void Send(const v1::RunGateRequest& request, GateStream& stream) {
  v1::RunGateRequest piece = request;
  piece.clear_entries();
  size_t bytes = 0;
  for (const v1::GateEntry& entry : request.entries()) {
    *piece.add_entries() = entry;
    bytes += entry.ByteSizeLong();
    if (bytes < kPieceBytes) continue;
    if (!stream.Write(piece)) return;
    piece.Clear();
    bytes = 0;
  }
  stream.Write(piece);
  stream.WritesDone();
}

}  // namespace

absl::StatusOr<v1::GateRun> RunGate(Connection& connection, const v1::RunGateRequest& request,
                                    bool quiet) {
  grpc::ClientContext context;
  auto reader = connection.gates().RunGate(&context);
  InterruptGuard guard([&] { context.TryCancel(); });
  Send(request, *reader);
  LiveLine line;
  const bool live = IsInteractive();
  auto next_line = std::chrono::steady_clock::now();
  v1::GateRun run;
  for (v1::GateEvent event; reader->Read(&event);) {
    if (event.has_run()) run = event.run();
    if (quiet || !event.has_progress()) continue;
    const auto now = std::chrono::steady_clock::now();
    if (live) {
      line.Show(ProgressText(event.progress()));
    } else if (now >= next_line) {
      next_line = now + kPlainLineEvery;
      std::fprintf(stderr, "%s\n", ProgressText(event.progress()).c_str());
    }
  }
  line.Clear();
  const absl::Status status = FromGrpc(reader->Finish());
  if (guard.interrupted()) return absl::CancelledError("interrupted; what was measured is stored");
  if (!status.ok()) return status;
  return run;
}

absl::StatusOr<double> ParseShare(const std::string& flag, const std::string& text) {
  absl::string_view number = text;
  const bool percent = absl::ConsumeSuffix(&number, "%");
  double value = 0;
  if (absl::SimpleAtod(number, &value) && value > 0 && value < 1e6) {
    return percent ? value / 100 : value;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " needs a share such as 1% or 0.01, not '", text, "'"));
}

}  // namespace tune::client
