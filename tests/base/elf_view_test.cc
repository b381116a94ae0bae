// SPDX-License-Identifier: Apache-2.0
#include "base/elf_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/base/elf_file.h"

namespace tune {
namespace {

using testing::ElementsAre;
using testing::Optional;

// A file with a symbol `answer`, 4 bytes into a section of data that is loaded at address 0x1000.
std::string SharedObject() {
  std::string symbols;
  AppendBytes(symbols, Elf64_Sym{});
  AppendBytes(symbols, Elf64_Sym{.st_name = 1, .st_shndx = 1, .st_value = 0x1004, .st_size = 4});
  return ElfFile({{".data", "0123four", {.sh_type = SHT_PROGBITS, .sh_addr = 0x1000}},
                  {".dynstr", std::string("\0answer\0", 8)},
                  {".dynsym", symbols, {.sh_type = SHT_DYNSYM, .sh_link = 2}}});
}

// Where the header of section `index` lies, and in it a field.
size_t HeaderAt(const std::string& file, size_t index, size_t field) {
  return ReadAt<Elf64_Ehdr>(file, 0)->e_shoff + index * sizeof(Elf64_Shdr) + field;
}

// Whether all that a view offers lies in the file.
bool LiesInFile(absl::string_view file) {
  const auto view = ElfView::Open(file);
  if (!view) return true;
  const auto inside = [&](absl::string_view part) {
    return part.empty() ||
           (part.data() >= file.data() && part.data() + part.size() <= file.data() + file.size());
  };
  bool all = true;
  for (const ElfView::Section& section : view->sections()) {
    all = all && inside(section.name) && inside(section.contents);
  }
  for (const ElfView::Symbol& symbol : view->Symbols(SHT_DYNSYM)) {
    all = all && inside(symbol.name) && inside(view->ContentsAt(symbol));
  }
  return all;
}

TEST(ReadAtTest, ReturnsNothingBeyondTheEnd) {
  EXPECT_THAT(ReadAt<uint16_t>("abc", 1), Optional(uint16_t{'c' << 8 | 'b'}));
  EXPECT_EQ(ReadAt<uint16_t>("abc", 2), std::nullopt);
  EXPECT_EQ(ReadAt<uint16_t>("abc", 4), std::nullopt);
  EXPECT_EQ(ReadAt<uint16_t>("abc", UINT64_MAX), std::nullopt);
}

TEST(ElfViewTest, ReadsSectionsAndSymbols) {
  const std::string file = SharedObject();
  const auto view = ElfView::Open(file);
  ASSERT_TRUE(view);
  std::vector<std::string> names;
  for (const ElfView::Section& section : view->sections()) names.emplace_back(section.name);
  EXPECT_THAT(names, ElementsAre("", ".data", ".dynstr", ".dynsym", ".shstrtab"));
  EXPECT_EQ(view->sections()[1].contents, "0123four");
  const auto symbols = view->Symbols(SHT_DYNSYM);
  ASSERT_EQ(symbols.size(), 2u);
  EXPECT_EQ(symbols[1].name, "answer");
  EXPECT_EQ(view->ContentsAt(symbols[1]), "four");
  EXPECT_TRUE(view->Symbols(SHT_SYMTAB).empty());
}

TEST(ElfViewTest, ASectionWithoutBytesInTheFileIsEmpty) {
  std::string file = SharedObject();
  Overwrite(file, HeaderAt(file, 1, offsetof(Elf64_Shdr, sh_type)), uint32_t{SHT_NOBITS});
  Overwrite(file, HeaderAt(file, 1, offsetof(Elf64_Shdr, sh_size)), uint64_t{1} << 60);
  const auto view = ElfView::Open(file);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->sections()[1].contents, "");
  EXPECT_EQ(view->ContentsAt(view->Symbols(SHT_DYNSYM)[1]), "");
}

TEST(ElfViewTest, ACutFileDoesNotOpen) {
  const std::string file = SharedObject();
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(ElfView::Open(absl::string_view(file).substr(0, size))) << size;
  }
  EXPECT_FALSE(ElfView::Open(std::string(4096, 'x')));
}

TEST(ElfViewTest, AFileOf32BitsDoesNotOpen) {
  std::string file = SharedObject();
  file[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(ElfView::Open(file));
}

TEST(ElfViewTest, OffsetsAndSizesOutsideTheFileDoNotOpen) {
  const std::string file = SharedObject();
  for (const uint64_t lie : {uint64_t{file.size()} + 1, UINT64_MAX, UINT64_MAX - 63}) {
    for (const size_t field : {offsetof(Elf64_Shdr, sh_offset), offsetof(Elf64_Shdr, sh_size)}) {
      std::string changed = file;
      Overwrite(changed, HeaderAt(file, 1, field), lie);
      EXPECT_FALSE(ElfView::Open(changed)) << field << " " << lie;
    }
    std::string changed = file;
    Overwrite(changed, offsetof(Elf64_Ehdr, e_shoff), lie);
    EXPECT_FALSE(ElfView::Open(changed)) << lie;
  }
  std::string changed = file;
  Overwrite(changed, offsetof(Elf64_Ehdr, e_shstrndx), uint16_t{5});
  EXPECT_FALSE(ElfView::Open(changed)) << "no such section";
  changed = file;
  Overwrite(changed, HeaderAt(file, 1, offsetof(Elf64_Shdr, sh_name)), UINT32_MAX);
  EXPECT_FALSE(ElfView::Open(changed)) << "no such name";
}

TEST(ElfViewTest, OverlappingSectionsDoNotOpen) {
  std::string file = SharedObject();
  for (size_t section = 1; section < 3; ++section) {
    Overwrite(file, HeaderAt(file, section, offsetof(Elf64_Shdr, sh_offset)), uint64_t{0});
    Overwrite(file, HeaderAt(file, section, offsetof(Elf64_Shdr, sh_size)), uint64_t{file.size()});
  }
  EXPECT_FALSE(ElfView::Open(file));
}

// 60,000 sections that all have the name of a megabyte.
TEST(ElfViewTest, NamesThatOverlapDoNotTakeQuadraticTime) {
  std::vector<ElfSection> sections(60000);
  sections[0].name.assign(1 << 20, 'n');
  std::string file = ElfFile(sections);
  for (size_t i = 1; i < sections.size(); ++i) {
    Overwrite(file, HeaderAt(file, i, offsetof(Elf64_Shdr, sh_name)), uint32_t{1});
  }
  EXPECT_FALSE(ElfView::Open(file));
}

TEST(ElfViewTest, SymbolsWithWrongNamesOrSectionsHaveNoContents) {
  std::string file = SharedObject();
  const uint64_t symbol =
      *ReadAt<uint64_t>(file, HeaderAt(file, 3, offsetof(Elf64_Shdr, sh_offset))) +
      sizeof(Elf64_Sym);
  const auto with = [&](size_t field, auto lie) {
    std::string changed = file;
    Overwrite(changed, symbol + field, lie);
    return changed;
  };
  for (const std::string& changed : {with(offsetof(Elf64_Sym, st_shndx), uint16_t{SHN_ABS}),
                                     with(offsetof(Elf64_Sym, st_value), uint64_t{0xfff}),
                                     with(offsetof(Elf64_Sym, st_value), uint64_t{0x1009}),
                                     with(offsetof(Elf64_Sym, st_value), UINT64_MAX)}) {
    const auto view = ElfView::Open(changed);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->ContentsAt(view->Symbols(SHT_DYNSYM)[1]), "");
  }
  const std::string nameless = with(offsetof(Elf64_Sym, st_name), UINT32_MAX);
  EXPECT_EQ(ElfView::Open(nameless)->Symbols(SHT_DYNSYM).size(), 1u);
  Overwrite(file, HeaderAt(file, 3, offsetof(Elf64_Shdr, sh_link)), UINT32_MAX);
  EXPECT_TRUE(ElfView::Open(file)->Symbols(SHT_DYNSYM).empty());
}

TEST(ElfViewTest, RandomChangesAreNeverReadBeyondTheEnd) {
  const std::string whole = SharedObject();
  std::mt19937_64 random(1);
  const uint64_t edges[] = {0,
                            1,
                            0xff,
                            0xffff,
                            0x7fffffff,
                            UINT32_MAX,
                            UINT64_MAX >> 1,
                            UINT64_MAX - 63,
                            UINT64_MAX,
                            whole.size()};
  for (int i = 0; i < 20000; ++i) {
    std::string changed = whole;
    for (uint64_t change = random() % 4 + 1; change > 0; --change) {
      const uint64_t value = random() % 2 != 0 ? random() : edges[random() % std::size(edges)];
      const size_t size = size_t{1} << random() % 4;
      std::memcpy(changed.data() + random() % (changed.size() - size), &value, size);
    }
    ASSERT_TRUE(LiesInFile(changed)) << i;
  }
}

}  // namespace
}  // namespace tune
