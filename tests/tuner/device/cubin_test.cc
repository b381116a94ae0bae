// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cubin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/elf_file.h"

namespace tune {
namespace {

using testing::ElementsAre;
using testing::Optional;

// An attribute of .nv.info with a parameter's ordinal, offset and size, as ptxas writes it.
std::string Parameter(uint16_t ordinal, uint16_t offset, uint32_t size) {
  std::string bytes("\x04\x17\x0c\x00", 4);
  AppendBytes(bytes, uint32_t{0});
  AppendBytes(bytes, ordinal);
  AppendBytes(bytes, offset);
  AppendBytes(bytes, uint32_t{size << 18 | 0x1f000});
  return bytes;
}

// A cubin for sm_90 whose kernel `k` has these attributes; `helper` is no kernel.
std::string Cubin(const std::string& info) {
  return ElfFile({{".text.k", "code"}, {".text.helper", "code"}, {".nv.info.k", info}},
                 {.e_machine = 190, .e_flags = 90});
}

std::optional<std::vector<int64_t>> ParameterBytes(const std::string& cubin) {
  const auto module = ReadCubin("k.cubin", cubin);
  if (!module.ok() || module->entries.size() != 1 || module->entries[0].name != "k") {
    return std::nullopt;
  }
  std::vector<int64_t> bytes;
  for (const ParameterFact& parameter : *module->entries[0].parameters) {
    bytes.push_back(parameter.bytes);
  }
  return bytes;
}

TEST(CubinTest, ParametersAreInTheirOrder) {
  const std::string other("\x04\x36\x04\x00\x08\x00\x00\x00", 8);
  const std::string info = Parameter(1, 8, 4) + other + Parameter(0, 0, 8);
  EXPECT_THAT(ParameterBytes(Cubin(info)), Optional(ElementsAre(8, 4)));
  EXPECT_THAT(ParameterBytes(Cubin("")), Optional(ElementsAre()));
  EXPECT_EQ(ReadCubin("k.cubin", Cubin(""))->sm, 90);
}

TEST(CubinTest, ACubinThatIsNotWholeIsAnError) {
  const std::string whole = Cubin(Parameter(0, 0, 8));
  const auto why = [](const std::string& cubin) {
    return std::string(ReadCubin("k.cubin", cubin).status().message());
  };
  EXPECT_EQ(why(std::string(4096, 'x')), "k.cubin: this is no cubin");
  EXPECT_EQ(why(ElfFile({{".text.k", "code"}})), "k.cubin: this is no cubin") << "but x86-64, say";
  EXPECT_EQ(why(Cubin(Parameter(1, 0, 8))), "k.cubin: parameter 0 of 'k' is missing");
  EXPECT_EQ(why(Cubin(Parameter(0, 0, 8).substr(0, 9))), "k.cubin: the cubin is cut");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(why(whole.substr(0, size)), "") << size;
  }
}

}  // namespace
}  // namespace tune
