// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/triton/cubin.h"

#include <elf.h>

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"

namespace tune::triton {
namespace {

// An attribute of the section .nv.info.ENTRY: a format, a name, and 16 bits that are its value or
// the size of the data that follows.
struct InfoAttribute {
  uint8_t format;
  uint8_t name;
  uint16_t value;
};
constexpr uint8_t kFormatSized = 4;
constexpr uint8_t kParameter = 0x17;
struct ParameterInfo {
  uint32_t index;
  uint16_t ordinal;
  uint16_t offset;
  uint32_t packed;  // the upper bits are the size
};
constexpr int kSizeShift = 18;

template <typename T>
std::optional<T> ReadAt(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<absl::string_view> Contents(absl::string_view bytes, const Elf64_Shdr& section) {
  if (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset) {
    return std::nullopt;
  }
  return bytes.substr(section.sh_offset, section.sh_size);
}

std::optional<absl::string_view> SectionNamed(absl::string_view bytes, const std::string& wanted) {
  const auto header = ReadAt<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return std::nullopt;
  }
  const auto section_at = [&](uint64_t index) {
    return ReadAt<Elf64_Shdr>(bytes, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto names_section = section_at(header->e_shstrndx);
  const auto names = names_section ? Contents(bytes, *names_section) : std::nullopt;
  if (!names) return std::nullopt;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section || section->sh_name >= names->size()) return std::nullopt;
    const absl::string_view tail = names->substr(section->sh_name);
    if (tail.substr(0, tail.find('\0')) == wanted) return Contents(bytes, *section);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<int64_t>> ParameterBytes(absl::string_view cubin,
                                                   const std::string& entry) {
  const auto info = SectionNamed(cubin, absl::StrCat(".nv.info.", entry));
  if (!info) return std::nullopt;
  std::map<uint16_t, int64_t> sizes;  // by the parameter's place
  for (uint64_t at = 0; at < info->size();) {
    const auto attribute = ReadAt<InfoAttribute>(*info, at);
    if (!attribute) return std::nullopt;
    at += sizeof(InfoAttribute);
    if (attribute->format != kFormatSized) continue;
    const auto parameter = ReadAt<ParameterInfo>(*info, at);
    if (attribute->name == kParameter) {
      if (!parameter || attribute->value != sizeof(ParameterInfo)) return std::nullopt;
      sizes[parameter->ordinal] = parameter->packed >> kSizeShift;
    }
    at += attribute->value;
  }
  std::vector<int64_t> bytes;
  for (const auto& [ordinal, size] : sizes) {
    if (ordinal != bytes.size()) return std::nullopt;
    bytes.push_back(size);
  }
  return bytes;
}

}  // namespace tune::triton
