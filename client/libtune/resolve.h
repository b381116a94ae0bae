// SPDX-License-Identifier: Apache-2.0
// Resolves a question: its device, its problem, the record that answers, or the safe default.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/libtune/snapshot.h"
#include "tuner/config.h"

namespace tune::library {

struct Question {
  std::string kernel;
  std::map<std::string, int64_t> dims;
  std::string dtype;   // empty: the spec's first
  std::string device;  // a name or an id; empty: this process's first

  friend auto operator<=>(const Question&, const Question&) = default;
};

struct Answer {
  Config config;
  lookup::Match match = lookup::Match::kNone;  // kNone: a default
  std::string reason;
  std::string kernel;
  std::string device;
  std::string target;
  std::string driver;  // of the device; empty: not known
  std::vector<std::pair<std::string, int64_t>> dims;
  std::string dtype;
  Measurement measured;  // of the record, as all that follows
  int64_t record = 0;
  int64_t published_unix_ms = 0;
  std::string confidence;
  std::string evidence;
  std::string artifact;
  Expectation expectation;
  std::string snapshot;
  std::string source;
};

// "exact", ..., "default".
const char* MatchName(lookup::Match match);

// INVALID_ARGUMENT: no such dim or dtype, or a value that is out of its bounds.
absl::StatusOr<Answer> Resolve(const Snapshot& snapshot, const std::string& source,
                               const Question& question);

// Why the answer is the answer: the `most` records that are most like the question.
std::string Explain(const Snapshot& snapshot, const Answer& answer, size_t most);

}  // namespace tune::library
