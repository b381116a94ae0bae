// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run_notes.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/plural.h"
#include "client/cli/user_file.h"
#include "client/report/format.h"

namespace tune::client {
namespace {

using Json = nlohmann::json;

constexpr size_t kNoteFilesMax = 4096;
constexpr size_t kNoteBytesMax = size_t{16} << 20;
constexpr size_t kNotedKeysMax = 20000;
constexpr size_t kLeftShownMax = 20;  // keys that were left, in the text for people

std::string MemberOf(const Json& line, const char* name) {
  const auto member = line.find(name);
  return member != line.end() && member->is_string() ? member->get<std::string>() : "";
}

// The last state of each key in one process.
using KeyStates = std::map<std::pair<std::string, std::string>, std::pair<KeyState, std::string>>;

// False if the line is none of ours.
bool TakeLine(const Json& line, KeyStates& states, double& seconds) {
  if (!line.is_object()) return false;
  if (const auto took = line.find("first_launch_seconds"); took != line.end()) {
    if (took->is_number()) seconds += took->get<double>();
    return took->is_number();
  }
  if (line.contains("process")) return true;
  const std::string state = MemberOf(line, "state");
  const auto known = std::find(std::begin(kStateNames), std::end(kStateNames), state);
  if (known == std::end(kStateNames) || MemberOf(line, "function").empty()) return false;
  const auto place = static_cast<KeyState>(known - std::begin(kStateNames));
  states[{MemberOf(line, "function"), MemberOf(line, "key")}] = {place, MemberOf(line, "why")};
  return true;
}

void TakeFile(const std::string& text, RunNotes& notes) {
  KeyStates states;
  double seconds = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!TakeLine(json, states, seconds)) ++notes.unreadable;
  }
  ++notes.processes;
  notes.first_launch_seconds = std::max(notes.first_launch_seconds, seconds);
  for (const auto& [key, state] : states) {
    if (notes.keys.size() >= kNotedKeysMax && !notes.keys.contains(key)) continue;
    KeyNotes& one = notes.keys[key];
    ++one.processes[state.first];
    if (!state.second.empty() && state.first == kLeft) one.why = state.second;
  }
}

int CountOf(const RunNotes& notes, KeyState state) {
  return static_cast<int>(
      std::count_if(notes.keys.begin(), notes.keys.end(),
                    [&](const auto& entry) { return entry.second.state() == state; }));
}

size_t FunctionsOf(const RunNotes& notes) {
  std::set<std::string> functions;
  for (const auto& [key, one] : notes.keys) functions.insert(key.first);
  return functions.size();
}

// The functions that were left alone, each with its reason once.
std::string LeftText(const RunNotes& notes) {
  std::set<std::string> lines;
  for (const auto& [key, one] : notes.keys) {
    if (one.state() == kLeft) lines.insert(absl::StrCat("    ", key.first, ": ", one.why, "\n"));
  }
  const size_t more = lines.size() > kLeftShownMax ? lines.size() - kLeftShownMax : 0;
  const auto end = std::next(lines.begin(), static_cast<ptrdiff_t>(lines.size() - more));
  return absl::StrCat(absl::StrJoin(lines.begin(), end, ""),
                      more > 0 ? absl::StrCat("    and ", more, " more; --summary has all\n") : "");
}

}  // namespace

KeyState KeyNotes::state() const {
  if (processes[kSent] > 0) return kSent;
  return processes[kLeft] > 0 ? kLeft : kAnswered;
}

RunNotes ReadRunNotes(const std::string& folder) {
  RunNotes notes;
  std::error_code error;
  std::set<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().extension() != ".jsonl" || files.size() >= kNoteFilesMax) continue;
    if (file.is_regular_file(error) && !file.is_symlink(error)) files.insert(file.path());
  }
  for (const std::filesystem::path& file : files) {
    const auto text = ReadFile(file, kNoteBytesMax);
    if (text.ok()) {
      TakeFile(*text, notes);
    } else {
      ++notes.unreadable;
    }
  }
  return notes;
}

std::string SummaryText(const RunNotes& notes, const std::string& digest,
                        const std::string& why_none) {
  if (notes.processes == 0) return "";
  const std::string of = digest.empty() ? absl::StrCat("without records (", why_none, ")")
                                        : absl::StrCat("by the records of ", digest);
  std::string text = absl::StrCat(
      "tunectl run: ", Counted(FunctionsOf(notes), "autotuned Triton kernel"), " with ",
      Counted(notes.keys.size(), "key"), " in ", Counted(notes.processes, "process", "processes"),
      ", ", of, "; first launches took ", DurationText(notes.first_launch_seconds), "\n");
  if (notes.keys.empty()) return text;
  absl::StrAppend(&text, "  answered by records: ", CountOf(notes, kAnswered),
                  ", sent to the daemon: ", CountOf(notes, kSent),
                  ", left alone: ", CountOf(notes, kLeft), "\n", LeftText(notes));
  return text;
}

std::string SummaryJson(const RunNotes& notes, const std::string& digest, int exit_code) {
  Json keys = Json::array();
  for (const auto& [key, one] : notes.keys) {
    Json row = {{"function", key.first}, {"key", key.second}, {"state", kStateNames[one.state()]}};
    for (const KeyState state : {kAnswered, kSent, kLeft}) {
      row["processes"][kStateNames[state]] = one.processes[state];
    }
    if (!one.why.empty()) row["why"] = one.why;
    keys.push_back(std::move(row));
  }
  Json summary = {{"exit_code", exit_code},
                  {"snapshot", digest},
                  {"processes", notes.processes},
                  {"functions", FunctionsOf(notes)},
                  {"first_launch_seconds", notes.first_launch_seconds},
                  {"keys", std::move(keys)}};
  for (const KeyState state : {kAnswered, kSent, kLeft}) {
    summary[kStateNames[state]] = CountOf(notes, state);
  }
  return absl::StrCat(summary.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
                      "\n");
}

}  // namespace tune::client
