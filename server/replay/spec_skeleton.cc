// SPDX-License-Identifier: Apache-2.0
#include "server/replay/spec_skeleton.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "server/wire/nouns.h"
#include "tune/v1/kernel.pb.h"
#include "tuner/problem.h"

namespace tune::server {
namespace {

constexpr char kPreface[] =
    "# Made from a recording: params and constraints are those of the recorded space, the "
    "defaults\n"
    "# are its best config. Still to be written: args, the rest of launch, work and reference; "
    "see\n"
    "# docs/adding-a-kernel.md. `tunectl kernel check` says what is missing.\n";

// The value as a literal of the expression language.
std::string Literal(const Value& value) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return ToText(value);
  return absl::StrCat("'", absl::StrReplaceAll(*text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// Lower case letters, digits, '_' and '-', as a kernel's name has.
std::string KernelName(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, 64)) {
    const char lower = absl::ascii_tolower(c);
    name += absl::ascii_isalnum(lower) || lower == '-' ? lower : '_';
  }
  return name.empty() ? "kernel" : name;
}

void AddDims(const std::string& problem, v1::KernelSpec& spec) {
  for (const absl::string_view part : absl::StrSplit(problem, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    int64_t size = 0;
    const bool named = !halves.second.empty();
    if (!absl::SimpleAtoi(named ? halves.second : halves.first, &size)) continue;
    v1::Dim& dim = *spec.add_dims();
    dim.set_name(named ? halves.first : absl::StrCat("size_", spec.dims_size() - 1));
    dim.set_default_value(size);
  }
}

// "bf16" of "rows=8192 cols=4096 bf16"; f32 where none is told.
std::string DtypeOf(const std::string& problem) {
  for (const absl::string_view part : absl::StrSplit(problem, ' ', absl::SkipEmpty())) {
    if (ParseDType(std::string(part)).ok()) return std::string(part);
  }
  return "f32";
}

// Kernel Tuner's own names for the shape of a block.
void AddBlock(const replay::Recording& recording, v1::KernelSpec& spec) {
  for (const char* name : {"block_size_x", "block_size_y", "block_size_z"}) {
    const bool has = std::any_of(recording.params.begin(), recording.params.end(),
                                 [&](const SpaceParam& param) { return param.name == name; });
    if (!has) return;
    spec.mutable_launch()->add_block(name);
  }
}

}  // namespace

std::string SpecSkeleton(const replay::Recording& recording) {
  v1::KernelSpec spec;
  const std::string name = KernelName(recording.kernel.empty() ? recording.name : recording.kernel);
  spec.set_name(name);
  spec.set_summary(Utf8(absl::StrCat("from recording ", recording.name)));
  spec.set_source(name + ".cu");
  spec.set_entry(absl::StrReplaceAll(name, {{"-", "_"}}));
  AddDims(recording.problem, spec);
  spec.add_dtypes(DtypeOf(recording.problem));
  const std::optional<size_t> best = recording.Best();
  for (size_t i = 0; i < recording.params.size(); ++i) {
    const SpaceParam& recorded = recording.params[i];
    v1::Param& param = *spec.add_params();
    param.set_name(Utf8(recorded.name));
    param.set_values(Utf8(absl::StrCat(
        "[",
        absl::StrJoin(recorded.values, ", ",
                      [](std::string* out, const Value& value) { *out += Literal(value); }),
        "]")));
    param.set_default_value(
        Utf8(Literal(recorded.values[best ? recording.DigitsOf(*best)[i] : 0])));
  }
  for (const std::string& constraint : recording.constraints) {
    spec.add_constraints()->set_expression(Utf8(constraint));
  }
  AddBlock(recording, spec);
  std::string text;
  google::protobuf::TextFormat::PrintToString(spec, &text);
  return kPreface + text;
}

}  // namespace tune::server
