// SPDX-License-Identifier: Apache-2.0
// tune-fetch snapshot|artifact|misses DIGEST ADDRESS MILLISECONDS BYTES_MAX
//
// Asks a daemon for a file and writes it to stdout; or tells it of the misses that stdin has, a
// RecordMissesRequest as JSON, and writes a line on each. libtune starts it and kills it at the
// deadline (daemon.cc), so that all that gRPC does happens here.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "client/connect/credentials.h"
#include "client/connect/daemon_socket.h"
#include "client/connect/rpc.h"
#include "google/protobuf/util/json_util.h"
#include "tune/v1/record.grpc.pb.h"
#include "tune/v1/snapshot.grpc.pb.h"

namespace tune::client {
namespace {

constexpr int kMessageBytesMax = 64 << 20;

struct Order {
  std::string what;
  std::string digest;
  std::string address;
  std::chrono::milliseconds timeout = std::chrono::milliseconds(0);
  size_t bytes_max = 0;
};

struct Daemon {
  std::shared_ptr<grpc::Channel> channel;
  std::optional<TlsTexts> tls;  // nothing: a socket's
};

absl::StatusOr<Daemon> Connect(const Order& order) {
  if (const std::string path = SocketPath(order.address); !path.empty()) {
    ASSIGN_OR_RETURN(auto channel, ConnectToDaemon(path, {.timeout = order.timeout,
                                                          .message_bytes_max = kMessageBytesMax}));
    return Daemon{.channel = std::move(channel), .tls = std::nullopt};
  }
  RETURN_IF_ERROR(HostPortOf(order.address).status());
  ASSIGN_OR_RETURN(Credentials credentials, CredentialsOf({}));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return Daemon{grpc::CreateCustomChannel(order.address, credentials.channel, arguments),
                std::move(credentials.texts)};
}

// All pieces of a file. `read(offset, piece)` gets the next one and returns the size of the whole.
template <typename Read>
absl::StatusOr<std::string> ReadPieces(size_t bytes_max, Read read) {
  std::string data;
  while (true) {
    std::string piece;
    const absl::StatusOr<uint64_t> whole = read(data.size(), piece);
    if (!whole.ok()) return whole.status();
    data += piece;
    if (data.size() > bytes_max || *whole > bytes_max) {
      return absl::ResourceExhaustedError(absl::StrCat("it has more than ", bytes_max, " bytes"));
    }
    if (piece.empty() || data.size() >= *whole) return data;
  }
}

absl::StatusOr<std::string> ReadSnapshot(v1::SnapshotService::Stub& snapshots, const Order& order,
                                         std::chrono::system_clock::time_point deadline) {
  std::string digest = order.digest;
  return ReadPieces(order.bytes_max, [&](size_t offset, std::string& piece) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::ReadSnapshotRequest request;
    request.set_snapshot(digest);
    request.set_offset(offset);
    v1::ReadSnapshotResponse response;
    const absl::Status status = FromGrpc(snapshots.ReadSnapshot(&context, request, &response));
    if (!status.ok()) return absl::StatusOr<uint64_t>(status);
    digest = response.snapshot().digest();  // the newest may be another by now
    piece = response.piece();
    return absl::StatusOr<uint64_t>(response.snapshot().bytes());
  });
}

absl::StatusOr<std::string> ReadArtifact(v1::RecordService::Stub& records, const Order& order,
                                         std::chrono::system_clock::time_point deadline) {
  return ReadPieces(order.bytes_max, [&](size_t offset, std::string& piece) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::ReadArtifactRequest request;
    request.set_artifact(order.digest);
    request.set_offset(offset);
    v1::ReadArtifactResponse response;
    const absl::Status status = FromGrpc(records.ReadArtifact(&context, request, &response));
    if (!status.ok()) return absl::StatusOr<uint64_t>(status);
    piece = response.piece();
    return absl::StatusOr<uint64_t>(response.bytes());
  });
}

absl::StatusOr<v1::RecordMissesRequest> ReadMisses(size_t bytes_max) {
  std::string text;
  char buffer[64 << 10];
  for (size_t count; (count = std::fread(buffer, 1, sizeof(buffer), stdin)) > 0;) {
    text.append(buffer, count);
    if (text.size() > bytes_max) return absl::ResourceExhaustedError("too many misses");
  }
  v1::RecordMissesRequest request;
  if (google::protobuf::util::JsonStringToMessage(text, &request).ok()) return request;
  return absl::InvalidArgumentError("stdin has no misses");
}

absl::StatusOr<std::string> RecordMisses(v1::RecordService::Stub& records,
                                         std::chrono::system_clock::time_point deadline) {
  ASSIGN_OR_RETURN(const v1::RecordMissesRequest request, ReadMisses(kMessageBytesMax));
  grpc::ClientContext context;
  context.set_deadline(deadline);
  v1::RecordMissesResponse response;
  const absl::Status status = FromGrpc(records.RecordMisses(&context, request, &response));
  if (!status.ok()) return status;
  std::string lines;
  for (const v1::RecordedMiss& miss : response.misses()) {
    if (miss.sweep_id() != 0) absl::StrAppend(&lines, "sweep ", miss.sweep_id(), ", ");
    absl::StrAppend(&lines, absl::StrReplaceAll(miss.note(), {{"\n", " "}}), "\n");
  }
  return lines;
}

absl::StatusOr<std::string> Read(const Order& order) {
  const auto deadline = std::chrono::system_clock::now() + order.timeout;
  ASSIGN_OR_RETURN(const Daemon daemon, Connect(order));
  const auto ask = [&]() -> absl::StatusOr<std::string> {
    if (order.what == "artifact") {
      return ReadArtifact(*v1::RecordService::NewStub(daemon.channel), order, deadline);
    }
    if (order.what == "misses") {
      return RecordMisses(*v1::RecordService::NewStub(daemon.channel), deadline);
    }
    return ReadSnapshot(*v1::SnapshotService::NewStub(daemon.channel), order, deadline);
  };
  absl::StatusOr<std::string> data = ask();
  if (daemon.tls.has_value() && absl::IsUnavailable(data.status())) {
    RETURN_IF_ERROR(ProbeTls(order.address, *daemon.tls, order.timeout));  // it says more
  }
  return data;
}

int Main(int argc, char** argv) {
  Order order;
  int64_t milliseconds = 0;
  const bool usable = argc == 6 && absl::SimpleAtoi(argv[4], &milliseconds) && milliseconds > 0 &&
                      absl::SimpleAtoi(argv[5], &order.bytes_max);
  if (usable) order.what = argv[1];
  if (order.what != "snapshot" && order.what != "artifact" && order.what != "misses") {
    std::fputs("usage: tune-fetch snapshot|artifact|misses DIGEST ADDRESS MILLISECONDS BYTES_MAX\n",
               stderr);
    return 2;
  }
  order.digest = argv[2];
  order.address = argv[3];
  order.timeout = std::chrono::milliseconds(milliseconds);
  // The parent may be gone by the deadline.
  alarm(static_cast<unsigned>(milliseconds / 1000 + 2));
  const absl::StatusOr<std::string> data = Read(order);
  if (!data.ok()) {
    std::fprintf(stderr, "%s\n", std::string(data.status().message()).c_str());
    return 1;
  }
  const bool written = std::fwrite(data->data(), 1, data->size(), stdout) == data->size();
  return written && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tune::client

int main(int argc, char** argv) {
  try {
    const int code = tune::client::Main(argc, argv);
    std::fflush(nullptr);
    _exit(code);  // gRPC's threads have nothing left to do
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
