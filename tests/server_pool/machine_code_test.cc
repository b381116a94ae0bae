// SPDX-License-Identifier: Apache-2.0
#include "server/pool/machine_code.h"

#include <elf.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tune::server
