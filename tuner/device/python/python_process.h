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

// Of an object; empty if it has no such text.
std::string TextIn(const nlohmann::json& object, const char* key);

// A program for `python -c` that imports nothing from the folder it is started in, which may be one
// that others have written to.
std::string PythonScript(const std::string& text);

// What it prints to its stdout. UNAVAILABLE: it could not be started, or did not end well.
absl::StatusOr<std::string> RunPython(const std::string& python,
                                      const std::vector<std::string>& arguments);

// Makes this process the one that orphans of its children come to, so that none goes unseen.
void AdoptOrphans();

struct PythonReply {
  nlohmann::json about;
  std::string made;  // text or a binary
};

// Not thread-safe, nor are two of them. The process ends with this object, or with its group.
class PythonProcess {
 public:
  // Runs `script`, which follows process.py, with two pipes and waits for its first reply, which
  // is of an object with "outcome": "ok". UNAVAILABLE, with its message, where it is not. REQUIRES:
  // AdoptOrphans, and no child of this process but such.
  static absl::StatusOr<std::unique_ptr<PythonProcess>> Start(const std::string& python,
                                                              const std::string& script,
                                                              const std::string& kind,
                                                              const std::string& folder);
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // Waits as long as it takes: whoever drives this worker keeps the deadline. Not OK: the process
  // is gone, what it says makes no sense, or a request has left processes behind.
  absl::StatusOr<PythonReply> Ask(const nlohmann::json& request);

 private:
  PythonProcess(pid_t pid, int requests, int replies);
  absl::StatusOr<PythonReply> ReadReply();
  absl::Status CheckAlone() const;

  const pid_t pid_;
  const int requests_;
  const int replies_;
};

}  // namespace tune::python
