// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/machine_code.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "server/worker/convert.h"
#include "tuner/bundle.h"

namespace tune::server {
namespace {

// Sections that a kernel executes or reads. A function's name follows in a cubin (".text.softmax").
constexpr absl::string_view kSections[] = {".text",        ".rodata",    ".data",      ".bss",
                                           ".nv.constant", ".nv.global", ".nv.shared", ".nv.local"};
constexpr size_t kKindBytesMax = 64;
constexpr int kRegistersShift = 24;  // in the sh_info of a cubin's .text sections

template <typename T>
std::optional<T> ReadAt(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<absl::string_view> Contents(absl::string_view bytes, const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS) return absl::string_view();
  if (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset) {
    return std::nullopt;
  }
  return bytes.substr(section.sh_offset, section.sh_size);
}

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
  const auto header = ReadAt<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return std::nullopt;
  }
  const auto section_at = [&](uint64_t index) {
    return ReadAt<Elf64_Shdr>(bytes, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto names_section = section_at(header->e_shstrndx);
  if (!names_section) return std::nullopt;
  const auto names = Contents(bytes, *names_section);
  if (!names) return std::nullopt;
  std::vector<std::string> parts;
  size_t room = bytes.size();
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section || section->sh_name >= names->size()) return std::nullopt;
    const absl::string_view tail = names->substr(section->sh_name);
    const absl::string_view kind = KindOf(tail.substr(0, tail.find('\0')));
    if (kind.empty()) continue;
    const auto contents = Contents(bytes, *section);
    // Sections of an honest file do not lie over one another; of others, a small file could be
    // read for ever.
    if (!contents || contents->size() > room || kind.size() > kKindBytesMax) return std::nullopt;
    room -= contents->size();
    parts.push_back(absl::StrCat(kind, " ", section->sh_size, " ",
                                 section->sh_info >> kRegistersShift, " ", *contents));
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
