// SPDX-License-Identifier: Apache-2.0
// Notes of the processes of `tunectl run` about their Triton kernels, which
// client/python/src/tunectl/triton/_adopted.py writes: a file of lines of JSON for each process,
// read once at the end.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace tune::client {

// The fate of a key in a process: launched by a record, handed to the daemon, or neither.
enum KeyState : size_t { kAnswered, kSent, kLeft };
inline constexpr const char* kStateNames[] = {"answered", "sent", "left"};

struct KeyNotes {
  std::array<int, 3> processes = {};  // by the state that each of them noted last
  std::string why;                    // of one that was left

  // That of the process that fared worst, but for a key that one process has sent for all.
  KeyState state() const;
};

struct RunNotes {
  std::map<std::pair<std::string, std::string>, KeyNotes> keys;  // by function and key
  int processes = 0;                                             // that imported Triton
  double first_launch_seconds = 0;  // of all keys together, in the slowest process
  int unreadable = 0;               // lines and files
};

// Reads the folder. Lines are written by foreign programs: those that do not parse are counted, and
// what is beyond the limits is left out.
RunNotes ReadRunNotes(const std::string& folder);

// Several lines for people. Empty if no process imported Triton. `why_none` says why there is no
// digest.
std::string SummaryText(const RunNotes& notes, const std::string& digest,
                        const std::string& why_none);
// An object of JSON.
std::string SummaryJson(const RunNotes& notes, const std::string& digest, int exit_code);

}  // namespace tune::client
