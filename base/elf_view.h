// SPDX-License-Identifier: Apache-2.0
// Reads the sections and symbols of a 64-bit ELF file: a cubin, or a shared object. The bytes are
// untrusted: they may be cut, and every offset and size in them may be wrong. Open checks all
// sections once, so that its users check only what a section contains (with ReadAt).
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune {

// The value that lies at `offset`, which need not be aligned; nullopt if it ends after the bytes.
template <typename T>
std::optional<T> ReadAt(absl::string_view bytes, uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// Views of the file's bytes, which must outlive it. All contents together, and all names together,
// are at most as long as the file: reading each of them once takes time linear in its size.
class ElfView {
 public:
  struct Section {
    absl::string_view name;
    absl::string_view contents;  // empty if the section takes no bytes of the file (.bss)
    Elf64_Shdr header = {};
  };
  struct Symbol {
    absl::string_view name;
    Elf64_Sym header = {};
  };

  // Returns nullopt if the bytes are no ELF file, are cut, or have sections that overlap.
  static std::optional<ElfView> Open(absl::string_view file);

  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Section>& sections() const { return sections_; }

  // The symbols of all tables of a type (SHT_SYMTAB or SHT_DYNSYM). A table whose names cannot be
  // read is left out.
  std::vector<Symbol> Symbols(uint32_t table_type) const;
  // The bytes of a symbol's section from the symbol's address on; empty if there are none.
  absl::string_view ContentsAt(const Symbol& symbol) const;

 private:
  Elf64_Ehdr header_ = {};
  std::vector<Section> sections_;
  size_t size_ = 0;
};

}  // namespace tune
