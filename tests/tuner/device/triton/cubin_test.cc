// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/triton/cubin.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace tune::triton {
namespace {

using testing::ElementsAre;
using testing::Optional;

template <typename T>
void Append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// An attribute of .nv.info with a parameter's place, offset and size, as ptxas writes it.
std::string Parameter(uint16_t ordinal, uint16_t offset, uint32_t size) {
  std::string bytes("\x04\x17\x0c\x00", 4);
  Append(bytes, uint32_t{0});
  Append(bytes, ordinal);
  Append(bytes, offset);
  Append(bytes, uint32_t{size << 18 | 0x1f000});
  return bytes;
}

// A file of two sections: names, and the entry's attributes.
std::string Cubin(const std::string& info) {
  const std::string names("\0.shstrtab\0.nv.info.k\0", 22);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof(header) + names.size() + info.size();
  header.e_shnum = 2;
  header.e_shstrndx = 0;
  Elf64_Shdr sections[2] = {};
  sections[0].sh_name = 1;
  sections[0].sh_offset = sizeof(header);
  sections[0].sh_size = names.size();
  sections[1].sh_name = 11;
  sections[1].sh_offset = sizeof(header) + names.size();
  sections[1].sh_size = info.size();
  std::string bytes;
  Append(bytes, header);
  bytes += names + info;
  Append(bytes, sections);
  return bytes;
}

TEST(CubinTest, TellsParametersInTheirOrder) {
  const std::string other("\x04\x36\x04\x00\x08\x00\x00\x00", 8);
  const std::string info = Parameter(1, 8, 4) + other + Parameter(0, 0, 8);
  EXPECT_THAT(ParameterBytes(Cubin(info), "k"), Optional(ElementsAre(8, 4)));
  EXPECT_THAT(ParameterBytes(Cubin(""), "k"), Optional(ElementsAre()));
}

TEST(CubinTest, ADamagedCubinHasNoParameters) {
  const std::string whole = Cubin(Parameter(0, 0, 8));
  EXPECT_FALSE(ParameterBytes("", "k"));
  EXPECT_FALSE(ParameterBytes("no cubin at all, however long it may be; no cubin at all", "k"));
  EXPECT_FALSE(ParameterBytes(whole, "other"));
  EXPECT_FALSE(ParameterBytes(Cubin(Parameter(1, 0, 8)), "k")) << "the first one is missing";
  EXPECT_FALSE(ParameterBytes(Cubin(Parameter(0, 0, 8).substr(0, 9)), "k"));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParameterBytes(whole.substr(0, size), "k")) << size;
  }
}

}  // namespace
}  // namespace tune::triton
