// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/kernel_facts.h"

#include <elf.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tuner/device/cpu/prelude/abi.h"

namespace tune::cpu {
namespace {

constexpr unsigned kParametersMax = 1024;

// An ELF file whose every offset may be wrong: the kernel is a stranger's.
class SharedObject {
 public:
  explicit SharedObject(absl::string_view bytes) : bytes_(bytes) {
    header_ = At<Elf64_Ehdr>(0);
    if (header_ && (memcmp(header_->e_ident, ELFMAG, SELFMAG) != 0 ||
                    header_->e_ident[EI_CLASS] != ELFCLASS64)) {
      header_.reset();
    }
  }

  template <typename T>
  std::optional<T> At(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  // The offset in the file at which the data of an exported symbol begins.
  std::optional<uint64_t> OffsetOf(absl::string_view name) const {
    if (!header_) return std::nullopt;
    for (uint64_t i = 0; i < header_->e_shnum; ++i) {
      const auto section = Section(i);
      if (!section || section->sh_type != SHT_DYNSYM) continue;
      const auto names = Section(section->sh_link);
      if (!names) return std::nullopt;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section->sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = At<Elf64_Sym>(section->sh_offset + at);
        if (!symbol) return std::nullopt;
        if (Name(names->sh_offset + symbol->st_name) != name) continue;
        const auto holder = Section(symbol->st_shndx);
        if (!holder || symbol->st_value < holder->sh_addr) return std::nullopt;
        return holder->sh_offset + (symbol->st_value - holder->sh_addr);
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Elf64_Shdr> Section(uint64_t index) const {
    return At<Elf64_Shdr>(header_->e_shoff + index * sizeof(Elf64_Shdr));
  }
  absl::string_view Name(uint64_t offset) const {
    if (offset >= bytes_.size()) return "";
    const absl::string_view rest = bytes_.substr(offset);
    return rest.substr(0, rest.find('\0'));
  }

  const absl::string_view bytes_;
  std::optional<Elf64_Ehdr> header_;
};

}  // namespace

std::optional<std::vector<ParameterFact>> ReadParameterFacts(const std::string& binary,
                                                             const std::string& entry) {
  const SharedObject object(binary);
  const auto offset = object.OffsetOf(absl::StrCat("tune_cpu_parameters_", entry));
  const auto count = offset ? object.At<unsigned>(*offset) : std::nullopt;
  if (!count || *count > kParametersMax) return std::nullopt;
  std::vector<ParameterFact> facts;
  for (unsigned i = 0; i < *count; ++i) {
    const auto fact = object.At<tune_cpu::ParameterFact>(*offset + sizeof(unsigned) +
                                                         i * sizeof(tune_cpu::ParameterFact));
    if (!fact) return std::nullopt;
    facts.push_back({.bytes = fact->size,
                     .type = std::string(fact->type, strnlen(fact->type, sizeof(fact->type)))});
  }
  return facts;
}

}  // namespace tune::cpu
