// SPDX-License-Identifier: Apache-2.0
// The state that every command of tunectl shares: the connection, the flags before the command, the
// outcome.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/json.h"
#include "client/report/exit_code.h"
#include "client/report/terminal.h"
#include "google/protobuf/message.h"

namespace tune::client {

class Session {
 public:
  explicit Session(EmbeddedServers embedded) : embedded_(std::move(embedded)) {}

  // Opened on first use, kept until the program ends. REQUIRES: later calls need no more.
  absl::StatusOr<Connection*> Connect(Need need = Need::kAll);
  // To v1::ReplayService, which plays recorded spaces and is always in this process; the same.
  absl::StatusOr<Connection*> Replay();

  // See EmbeddedServers.
  absl::StatusOr<std::string> RestoreStore(const std::string& file) const {
    return embedded_.restore_store(file);
  }
  // Prints where the page of the job is that the command followed last, if it has one.
  void PrintPage() const;

  // Flags before the command, and the dims among the command's.
  std::string address;
  TlsFiles tls;
  std::string daemon_user;
  HostTools tools;
  std::vector<std::string> kernels;  // that the command names; empty: it may ask about any
  bool json = false;  // --json of the command; its errors print what programs can act on
  std::map<std::string, std::string> dims;
  // Google Benchmark's own, "--benchmark_...", for the command bench.
  std::vector<std::string> benchmark_flags;
  // The words after "--", for the command run.
  std::vector<std::string> program;

  // The outcome of the command; Finish prints the error, if it is one.
  void Finish(const absl::Status& status);
  void Finish(ExitCode code) { exit_code_ = code; }
  int exit_code() const { return exit_code_; }
  // The error of the last Finish.
  const std::string& error() const { return error_; }

 private:
  const EmbeddedServers embedded_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Connection> replay_;
  ExitCode exit_code_ = kDone;
  std::string error_;
};

// Printers of every command. With --json they print JSON (client/cli/json.h), else text.
void PrintJson(const google::protobuf::Message& message);

// Prints the message as JSON, or calls print(message).
template <typename Message, typename Printer>
absl::Status Print(const Session& session, const Message& message, Printer print) {
  if (session.json) {
    PrintJson(message);
  } else {
    print(message);
  }
  return absl::OkStatus();
}

// Prints an object with one list, each element on a line: {"sweeps": [...]}.
template <typename Messages>
absl::Status PrintJsonList(const std::string& name, const Messages& messages) {
  std::printf("{\"%s\": [", name.c_str());
  const char* separator = "\n";
  for (const auto& message : messages) {
    std::printf("%s%s", separator, JsonText(message, Layout::kOneLine).c_str());
    separator = ",\n";
  }
  std::fputs("]}\n", stdout);
  return absl::OkStatus();
}

using Cells = std::vector<std::string>;

// Prints the messages as such an object, or as a table with the columns `titles` and the cells
// row(message). An empty table is followed by `if_empty`, on stderr.
template <typename Messages, typename Row>
absl::Status PrintList(const Session& session, const std::string& name, const Messages& messages,
                       std::vector<std::string> titles, Row row, const char* if_empty = "") {
  if (session.json) return PrintJsonList(name, messages);
  Table table(std::move(titles));
  for (const auto& message : messages) table.Add(row(message));
  std::fputs(table.Text().c_str(), stdout);
  if (messages.empty()) std::fputs(if_empty, stderr);
  return absl::OkStatus();
}

}  // namespace tune::client
