// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/machine_code.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/elf_view.h"
#include "base/sha256.h"
#include "server/worker/convert.h"
#include "tuner/bundle.h"

namespace tune::server {
namespace {

// Sections that a kernel executes or reads. A function's name follows in a cubin (".text.softmax").
constexpr absl::string_view kSections[] = {".text",        ".rodata",    ".data",      ".bss",
                                           ".nv.constant", ".nv.global", ".nv.shared", ".nv.local"};
constexpr int kRegistersShift = 24;  // in the sh_info of a cubin's .text sections

// The kind of a section that counts; empty for one that does not.
absl::string_view KindOf(absl::string_view name) {
  for (const absl::string_view kind : kSections) {
    if (!absl::StartsWith(name, kind)) continue;
    // ".nv.constant0.softmax" and ".nv.constant3" are different kinds; names are not.
    const size_t dot = name.find('.', kind.size());
    return dot == absl::string_view::npos ? name : name.substr(0, dot);
  }
  return "";
}

// Returns nullopt if the bytes are not an ELF file that can be read to its end.
std::optional<std::string> CodeOf(absl::string_view bytes) {
  const std::optional<ElfView> view = ElfView::Open(bytes);
  if (!view) return std::nullopt;
  std::vector<std::string> parts;
  for (const auto& [name, contents, header] : view->sections()) {
    const absl::string_view kind = KindOf(name);
    if (kind.empty()) continue;
    parts.push_back(absl::StrCat(kind, " ", header.sh_size, " ", header.sh_info >> kRegistersShift,
                                 " ", contents));
  }
  if (parts.empty()) return std::nullopt;
  std::sort(parts.begin(), parts.end());
  std::string code;
  for (const std::string& part : parts) absl::StrAppend(&code, part.size(), ":", part);
  return code;
}

}  // namespace

std::string MachineCodeHash(const Artifact& artifact) {
  const Resources& resources = artifact.resources;
  std::string all = absl::StrCat(resources.registers, " ", resources.stack_bytes, " ",
                                 resources.static_shared_bytes, " ");
  const auto binaries = Unbundle(artifact.binary);
  if (!binaries.ok()) return Sha256Hex(absl::StrCat(all, artifact.binary));
  for (const absl::string_view binary : *binaries) {
    const std::optional<std::string> code = CodeOf(binary);
    absl::StrAppend(&all, code ? absl::string_view(*code) : binary);
  }
  return Sha256Hex(all);
}

std::string StepsKey(const std::vector<StepPlan>& steps) {
  return ToWire(Program{.steps = steps}).SerializeAsString();
}

}  // namespace tune::server
