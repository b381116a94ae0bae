// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/machine_code.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/elf_file.h"

namespace tune::server {
namespace {

// A file with these sections, given as name and contents.
std::string Elf(const std::vector<std::pair<std::string, std::string>>& sections,
                uint32_t info = 0) {
  std::vector<ElfSection> all;
  for (const auto& [name, contents] : sections) {
    all.push_back({name, contents, {.sh_type = SHT_PROGBITS, .sh_info = info}});
  }
  return ElfFile(std::move(all));
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

}  // namespace
}  // namespace tune::server
