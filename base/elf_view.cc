// SPDX-License-Identifier: Apache-2.0
#include "base/elf_view.h"

namespace tune {
namespace {

// The text that starts at `offset` and ends before a zero byte. Subtracts its length from `room`;
// nullopt if it is longer than that, or has no end in the table.
std::optional<absl::string_view> NameAt(absl::string_view table, uint64_t offset, size_t& room) {
  if (offset >= table.size()) return std::nullopt;
  const absl::string_view tail = table.substr(offset);
  const size_t length = tail.substr(0, room + 1).find('\0');
  if (length == absl::string_view::npos) return std::nullopt;
  room -= length;
  return tail.substr(0, length);
}

}  // namespace

std::optional<ElfView> ElfView::Open(absl::string_view file) {
  ElfView view;
  const auto header = ReadAt<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shoff > file.size() ||
      header->e_shstrndx >= header->e_shnum) {
    return std::nullopt;
  }
  view.header_ = *header;
  view.size_ = file.size();
  size_t room = file.size();
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = ReadAt<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return std::nullopt;
    Section& added = view.sections_.emplace_back();
    added.header = *section;
    if (section->sh_type == SHT_NOBITS || section->sh_size == 0) continue;
    if (section->sh_offset > file.size() || section->sh_size > file.size() - section->sh_offset ||
        section->sh_size > room) {
      return std::nullopt;
    }
    room -= section->sh_size;
    added.contents = file.substr(section->sh_offset, section->sh_size);
  }
  room = file.size();
  const absl::string_view names = view.sections_[header->e_shstrndx].contents;
  for (Section& section : view.sections_) {
    const auto name = NameAt(names, section.header.sh_name, room);
    if (!name) return std::nullopt;
    section.name = *name;
  }
  return view;
}

std::vector<ElfView::Symbol> ElfView::Symbols(uint32_t table_type) const {
  std::vector<Symbol> symbols;
  size_t room = size_;
  for (const Section& table : sections_) {
    if (table.header.sh_type != table_type || table.header.sh_link >= sections_.size()) continue;
    const absl::string_view names = sections_[table.header.sh_link].contents;
    uint64_t at = 0;
    while (const auto symbol = ReadAt<Elf64_Sym>(table.contents, at)) {
      const auto name = NameAt(names, symbol->st_name, room);
      if (!name) break;
      symbols.push_back({*name, *symbol});
      at += sizeof(Elf64_Sym);
    }
  }
  return symbols;
}

absl::string_view ElfView::ContentsAt(const Symbol& symbol) const {
  if (symbol.header.st_shndx >= sections_.size()) return "";
  const Section& section = sections_[symbol.header.st_shndx];
  const uint64_t offset = symbol.header.st_value - section.header.sh_addr;
  if (symbol.header.st_value < section.header.sh_addr || offset > section.contents.size()) {
    return "";
  }
  return section.contents.substr(offset);
}

}  // namespace tune
