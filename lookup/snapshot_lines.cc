// SPDX-License-Identifier: Apache-2.0
#include "lookup/snapshot_lines.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tune::lookup {
namespace {

constexpr absl::string_view kNone = absl::string_view();

// Between a start and the next `"`, where `,` follows; empty: there is no such text, or one that is
// escaped.
absl::string_view NameIn(absl::string_view line, absl::string_view start) {
  if (!absl::ConsumePrefix(&line, start)) return kNone;
  const size_t end = line.find_first_of("\"\\");
  const bool is_plain = end != line.npos && absl::StartsWith(line.substr(end), "\",");
  return is_plain ? line.substr(0, end) : kNone;
}

absl::string_view KernelOfKernel(absl::string_view line) { return NameIn(line, "{\"name\":\""); }
absl::string_view KernelOfGrid(absl::string_view line) { return NameIn(line, "{\"kernel\":\""); }
absl::string_view KernelOfRecord(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "{\"id\":")) return kNone;
  size_t digits = 0;
  while (digits < line.size() && absl::ascii_isdigit(line[digits])) ++digits;
  return digits == 0 ? kNone : NameIn(line.substr(digits), ",\"kernel\":\"");
}

// The next list of the file, by kernel; false: it is not laid out so.
bool TakeList(absl::string_view& rest, absl::string_view name,
              absl::string_view (*kernel_of)(absl::string_view),
              std::vector<absl::string_view> KernelLines::*list, LinesByKernel& by_kernel) {
  if (!absl::ConsumePrefix(&rest, absl::StrCat(",\n\"", name, "\":["))) return false;
  if (absl::ConsumePrefix(&rest, "]")) return true;
  const size_t end = rest.find("\n]");
  // An empty list that ends on another line is not as a daemon writes it, either.
  if (end == rest.npos || end == 0 || !absl::ConsumePrefix(&rest, "\n")) return false;
  const absl::string_view all = rest.substr(0, end - 1);
  rest.remove_prefix(all.size() + 2);
  KernelLines* lines = nullptr;
  absl::string_view kernel;
  for (const absl::string_view line : absl::StrSplit(all, ",\n")) {
    const absl::string_view of = kernel_of(line);
    if (of.empty()) return false;
    if (lines == nullptr || of != kernel) lines = &by_kernel[std::string(of)];
    kernel = of;
    (lines->*list).push_back(line);
  }
  return true;
}

}  // namespace

std::optional<SnapshotLines> SplitSnapshot(absl::string_view data) {
  const size_t place = data.find(",\n\"kernels\":[");
  if (place == data.npos) return std::nullopt;
  SnapshotLines split;
  split.head = absl::StrCat(data.substr(0, place), "}");
  absl::string_view rest = data.substr(place);
  const bool is_whole =
      TakeList(rest, "kernels", KernelOfKernel, &KernelLines::kernels, split.by_kernel) &&
      TakeList(rest, "records", KernelOfRecord, &KernelLines::records, split.by_kernel) &&
      // Files of older daemons have no grids.
      (rest == "}\n" ||
       TakeList(rest, "grids", KernelOfGrid, &KernelLines::grids, split.by_kernel)) &&
      (rest == "}\n" ||
       TakeList(rest, "sweeps", KernelOfGrid, &KernelLines::sweeps, split.by_kernel));
  if (!is_whole || rest != "}\n") return std::nullopt;
  return split;
}

void AddLines(LinesByKernel more, LinesByKernel& all) {
  const auto add = [](const auto& lines, auto& to) {
    to.insert(to.end(), lines.begin(), lines.end());
  };
  for (auto& [name, lines] : more) {
    KernelLines& kernel = all[name];
    if (kernel.kernels.empty()) kernel.kernels = std::move(lines.kernels);
    add(lines.records, kernel.records);
    add(lines.grids, kernel.grids);
    add(lines.sweeps, kernel.sweeps);
  }
}

}  // namespace tune::lookup
