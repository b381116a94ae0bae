// SPDX-License-Identifier: Apache-2.0
// Writes small ELF files for tests of their readers.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tune {

struct ElfSection {
  std::string name;
  std::string contents;
  Elf64_Shdr header = {.sh_type = SHT_PROGBITS};
};

template <typename T>
void AppendBytes(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// An empty section, then these, then the table of their names. `header` has the fields that the
// layout does not set.
inline std::string ElfFile(std::vector<ElfSection> sections, Elf64_Ehdr header = {}) {
  sections.insert(sections.begin(), {"", "", {}});
  sections.push_back({".shstrtab", ""});
  std::string names;
  for (ElfSection& section : sections) {
    section.header.sh_name = static_cast<uint32_t>(names.size());
    names.append(section.name.c_str(), section.name.size() + 1);
  }
  sections.back().contents = std::move(names);
  std::string body(sizeof(header), '\0');
  for (ElfSection& section : sections) {
    section.header.sh_offset = body.size();
    section.header.sh_size = section.contents.size();
    body += section.contents;
  }
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = body.size();
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  for (const ElfSection& section : sections) AppendBytes(body, section.header);
  std::memcpy(body.data(), &header, sizeof(header));
  return body;
}

// Overwrites a value in a file, as a hostile writer would.
template <typename T>
void Overwrite(std::string& file, size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}

}  // namespace tune
