// SPDX-License-Identifier: Apache-2.0
// What every command of tunectl shares: the connection, the flags before the command, the outcome.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/report/exit_code.h"
#include "google/protobuf/message.h"

namespace tune::client {

class Session {
 public:
  explicit Session(EmbeddedServers embedded) : embedded_(std::move(embedded)) {}

  // Opened on first use, kept until the program ends. REQUIRES: later calls need no more.
  absl::StatusOr<Connection*> Connect(Need need = Need::kAll);
  // To v1::ReplayService, which plays recorded spaces and is always in this process; the same.
  absl::StatusOr<Connection*> Replay();

  // Flags before the command, and the dims among the command's.
  std::string address;
  TlsFiles tls;
  std::string daemon_user;
  HostTools tools;
  bool json = false;  // the command prints JSON, and after an error what programs can act on
  std::map<std::string, std::string> dims;
  // Google Benchmark's own, "--benchmark_...", for the command bench.
  std::vector<std::string> benchmark_flags;

  // What the command came to; `Finish` prints the error, if it is one.
  void Finish(const absl::Status& status);
  void Finish(ExitCode code) { exit_code_ = code; }
  int exit_code() const { return exit_code_; }
  // Of the last `Finish`.
  const std::string& error() const { return error_; }

 private:
  const EmbeddedServers embedded_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Connection> replay_;
  ExitCode exit_code_ = kDone;
  std::string error_;
};

// For --json (client/cli/json.h).
void PrintJson(const google::protobuf::Message& message);

// What every list command prints for --json: an object with one list, each element on a line.
class JsonList {
 public:
  explicit JsonList(const std::string& name);  // "sweeps"
  ~JsonList();
  JsonList(const JsonList&) = delete;
  JsonList& operator=(const JsonList&) = delete;
  void Add(const google::protobuf::Message& message);

 private:
  bool first_ = true;
};

// What a command prints: the message as JSON if `json`, else what `print` makes of it.
template <typename Message, typename Print>
absl::Status PrintResult(const Message& message, bool json, Print print) {
  if (json) {
    PrintJson(message);
  } else {
    print(message);
  }
  return absl::OkStatus();
}

template <typename Messages>
void PrintJsonList(const std::string& name, const Messages& messages) {
  JsonList list(name);
  for (const auto& message : messages) list.Add(message);
}

}  // namespace tune::client
