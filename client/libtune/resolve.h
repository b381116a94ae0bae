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
#include "lookup/key_fields.h"
#include "tuner/config.h"
#include "tuner/plan.h"

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
  std::vector<LaunchPlan> launches;  // of the config; none if only the compiler knows
  std::string snapshot;
  std::string source;
};

// "exact", ..., "default".
const char* MatchName(lookup::Match match);

// INVALID_ARGUMENT: no such dim or dtype, or a value that is out of its bounds.
absl::StatusOr<Answer> Resolve(const Snapshot& snapshot, const std::string& source,
                               const Question& question);

// An answer's expectation in words, one sentence.
std::string TextOf(const Expectation& expectation);

// A record beside the question.
struct Candidate {
  int64_t record = 0;
  bool answers = false;
  bool config_is_valid = false;  // for the problem that was asked for
  std::vector<lookup::KeyField> fields;
  double distance = 0;  // in powers of two, over all axes

  // Fields that differ, "config" among them if it is not valid.
  std::vector<std::string> BlockedBy() const;
};
// Why the answer is the answer: the `most` records that are most like the question. None without a
// snapshot (null).
std::vector<Candidate> Candidates(const Snapshot* snapshot, const Answer& answer, size_t most);
std::string Explain(const Answer& answer, const std::vector<Candidate>& candidates);

}  // namespace tune::library
