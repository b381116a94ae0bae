// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/machine_code.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tune::server {
namespace {

using Section = std::pair<std::string, std::string>;  // name, contents

// A minimal ELF file with these sections and the table of their names.
std::string Elf(std::vector<Section> sections, uint32_t info = 0) {
  std::string names("\0", 1);
  std::string body(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> headers(1);
  sections.push_back({".shstrtab", ""});
  for (auto& [name, contents] : sections) {
    Elf64_Shdr header = {};
    header.sh_name = static_cast<uint32_t>(names.size());
    header.sh_type = SHT_PROGBITS;
    header.sh_info = info;
    names.append(name.c_str(), name.size() + 1);
    headers.push_back(header);
  }
  sections.back().second = names;
  for (size_t i = 0; i < sections.size(); ++i) {
    headers[i + 1].sh_offset = body.size();
    headers[i + 1].sh_size = sections[i].second.size();
    body += sections[i].second;
  }
  Elf64_Ehdr elf = {};
  elf.e_ident[0] = 0x7f;
  elf.e_ident[1] = 'E';
  elf.e_ident[2] = 'L';
  elf.e_ident[3] = 'F';
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_shoff = body.size();
  elf.e_shnum = static_cast<uint16_t>(headers.size());
  elf.e_shstrndx = static_cast<uint16_t>(headers.size() - 1);
  for (const Elf64_Shdr& header : headers) {
    body.append(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  body.replace(0, sizeof(elf), reinterpret_cast<const char*>(&elf), sizeof(elf));
  return body;
}

std::string HashOf(std::string binary, Resources resources = {}) {
  return MachineCodeHash({.binary = std::move(binary), .resources = std::move(resources)});
}

TEST(MachineCode, NamesAndDebugInformationDoNotMatter) {
  const std::string hash = HashOf(Elf({{".text.softmax", "code"}, {".debug_info", "a"}}));
  EXPECT_EQ(hash.size(), 64);
  EXPECT_EQ(HashOf(Elf({{".text.renamed", "code"}, {".debug_info", "other"}})), hash);
  EXPECT_EQ(HashOf(Elf({{".note", "x"}, {".text.softmax", "code"}})), hash);
}

TEST(MachineCode, CodeConstantsAndResourcesMatter) {
  const std::string hash = HashOf(Elf({{".text.k", "code"}, {".nv.constant0.k", "1"}}));
  EXPECT_NE(HashOf(Elf({{".text.k", "edoc"}, {".nv.constant0.k", "1"}})), hash);
  EXPECT_NE(HashOf(Elf({{".text.k", "code"}, {".nv.constant0.k", "2"}})), hash);
  EXPECT_NE(HashOf(Elf({{".text.k", "code"}, {".nv.constant3.k", "1"}})), hash);
  EXPECT_NE(HashOf(Elf({{".text.k", "code"}})), hash);
  EXPECT_NE(HashOf(Elf({{".text.k", "code"}, {".nv.constant0.k", "1"}}, 32u << 24)), hash)
      << "a cubin keeps the register count there";
  EXPECT_EQ(HashOf(Elf({{".text.k", "code"}, {".nv.constant0.k", "1"}}, 7)), hash)
      << "and the symbol's index";
  EXPECT_NE(HashOf(Elf({{".text.k", "code"}, {".nv.constant0.k", "1"}}), {.registers = 40}), hash);
}

TEST(MachineCode, WhatIsNoElfFileIsHashedWhole) {
  EXPECT_NE(HashOf("one"), HashOf("two"));
  EXPECT_EQ(HashOf("one"), HashOf("one"));
  EXPECT_EQ(HashOf("").size(), 64);
  const std::string whole = Elf({{".text.k", "code"}});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(HashOf(whole.substr(0, size)).size(), 64) << "cut off at " << size;
  }
}

// A file of a few megabytes that says that each of its many sections is all of it.
TEST(MachineCode, SectionsThatLieOverOneAnotherAreNotRead) {
  constexpr size_t kBytes = 4 << 20;
  constexpr size_t kCount = 30000;
  std::string file = Elf({{".text.k", "code"}});
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof(head));
  Elf64_Shdr names, all = {};
  std::memcpy(&names, file.data() + head.e_shoff + head.e_shstrndx * sizeof(names), sizeof(names));
  std::memcpy(&all, file.data() + head.e_shoff + sizeof(all), sizeof(all));
  all.sh_offset = 0;
  all.sh_size = kBytes;
  head.e_shoff = file.size();
  head.e_shnum = kCount;
  head.e_shstrndx = kCount - 1;
  for (size_t i = 0; i + 1 < kCount; ++i) {
    file.append(reinterpret_cast<const char*>(&all), sizeof(all));
  }
  file.append(reinterpret_cast<const char*>(&names), sizeof(names));
  file.replace(0, sizeof(head), reinterpret_cast<const char*>(&head), sizeof(head));
  file.resize(std::max(kBytes, file.size()));
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(HashOf(file), HashOf(file));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
}

TEST(MachineCode, NoChangeOfAFileIsTooMuch) {
  const std::string whole =
      Elf({{".text.k", "code"}, {".nv.constant0.k", "1"}, {".rodata", "text"}, {".bss", ""}});
  std::mt19937_64 random(1);
  const uint64_t edges[] = {0,
                            1,
                            0xff,
                            0xffff,
                            0x7fffffff,
                            0xffffffff,
                            0x7fffffffffffffff,
                            0xffffffffffffffc0,
                            0xffffffffffffffff,
                            whole.size()};
  for (int i = 0; i < 20000; ++i) {
    std::string changed = whole;
    for (uint64_t change = random() % 4 + 1; change > 0; --change) {
      const uint64_t value = random() % 2 != 0 ? random() : edges[random() % std::size(edges)];
      const size_t size = size_t{1} << random() % 4;
      std::memcpy(changed.data() + random() % (changed.size() - size), &value, size);
    }
    ASSERT_EQ(HashOf(changed).size(), 64) << i;
  }
}

}  // namespace
}  // namespace tune::server
