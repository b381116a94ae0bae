// SPDX-License-Identifier: Apache-2.0
// Python programs that a worker runs: one that prints what it finds, and one that answers requests.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
// this object, or with its group.
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
  // child that served others before is asked again of a fresh one. Not OK if the process is gone,
  // its reply does not match this request, or the request has left processes behind.
  absl::StatusOr<PythonReply> Ask(nlohmann::json request);
  // Attempts in a child what the walls must prevent, and returns what succeeded.
  absl::StatusOr<std::vector<std::string>> TryWalls();

 private:
  PythonProcess(pid_t pid, int requests, int replies, int ended, bool shares_children);
  // The request's nonce, once a child has said that it has the request.
  absl::StatusOr<std::string> Send(nlohmann::json& request);
  absl::StatusOr<PythonReply> AwaitReply(const std::string& nonce);
  // Waits until the child is gone; how it ended.
  absl::StatusOr<nlohmann::json> AwaitEnd();
  absl::StatusOr<PythonReply> ReadReply();
  // ABORTED: the child that would write to `fd` has ended.
  absl::StatusOr<std::string> ReadFrame(int fd) const;
  absl::Status ReadExactly(int fd, char* bytes, size_t size) const;

  const pid_t pid_;
  const int requests_;
  const int replies_;
  const int ended_;  // of the parent alone: no child can write to it
  const bool shares_children_;
  int answered_ = 0;  // by the child that is there
};

}  // namespace tune::python
