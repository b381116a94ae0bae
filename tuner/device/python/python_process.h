// SPDX-License-Identifier: Apache-2.0
// Python programs that a worker runs: one that prints what it finds, and one that answers requests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/child_process.h"
#include "base/descriptor.h"
#include "nlohmann/json.hpp"

namespace tune::python {

// A text of an object; empty if it has no such text.
std::string TextIn(const nlohmann::json& object, const char* key);

// A program for `python -c` that imports nothing from the current folder, which others may be able
// to write to.
std::string PythonScript(const std::string& text);

// Returns the program's stdout. UNAVAILABLE if it could not be started, or failed.
absl::StatusOr<std::string> RunPython(const std::string& python,
                                      const std::vector<std::string>& arguments);

struct PythonReply {
  nlohmann::json about;
  std::string made;  // text or a binary
};

// A process that forks a child for what it is asked (process.py). Not thread-safe. It ends with
// this object, or with its group. A process or child that was killed while it waited for a request
// costs no request: the next one is sent to another.
class PythonProcess {
 public:
  // Runs `script`, which follows process.py, with three pipes and waits for its first reply, which
  // is of an object with "outcome": "ok". UNAVAILABLE, with its message, where it is not.
  // `shares_children`: a child may answer several requests, since none runs code that was sent.
  static absl::StatusOr<std::unique_ptr<PythonProcess>> Start(const std::string& python,
                                                              const std::string& script,
                                                              const std::string& kind,
                                                              const std::string& folder,
                                                              bool shares_children = false);
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // Waits without a deadline, which the worker's supervisor enforces. A request that fails in a
  // child that served others before is asked again of a fresh one, and one that no child accepted,
  // of a fresh process. Not OK if that one does not accept it either, the reply does not match this
  // request, or the request has left processes behind.
  absl::StatusOr<PythonReply> Ask(nlohmann::json request);
  // Attempts in a child what the walls must prevent, and returns what succeeded.
  absl::StatusOr<std::vector<std::string>> TryWalls();

 private:
  explicit PythonProcess(ChildCommand command, bool shares_children)
      : command_(std::move(command)), shares_children_(shares_children) {}
  // Starts the process and waits for its first reply.
  absl::Status Launch();
  void End();
  // Returns the request's nonce after a child has confirmed that it has the request. ABORTED: the
  // child or the process ended before that, and may have read any part of the request.
  absl::StatusOr<std::string> Send(nlohmann::json& request);
  // ABORTED: a child has ended.
  absl::Status Write(absl::string_view bytes) const;
  absl::StatusOr<PythonReply> AwaitReply(const std::string& nonce);
  // Waits until the child is gone; how it ended.
  absl::StatusOr<nlohmann::json> AwaitEnd();
  absl::StatusOr<PythonReply> ReadReply();
  // ABORTED: the child that would write to `fd` has ended.
  absl::StatusOr<std::string> ReadFrame(int fd) const;
  absl::Status ReadExactly(int fd, char* bytes, size_t size) const;

  ChildCommand command_;
  const bool shares_children_;
  std::optional<ChildProcess> child_;
  Descriptor requests_;  // does not block
  Descriptor replies_;
  Descriptor ended_;  // of the parent alone: no child can write to it
  int answered_ = 0;  // requests, by the present child of the process
};

}  // namespace tune::python
