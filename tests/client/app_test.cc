// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_replace.h"
#include "tuner/kernel.h"

namespace tune::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

absl::Status CheckDimNamed(const std::string& name) {
  const std::string spec = absl::StrReplaceAll(R"spec(name: "k" source: "k.cu" entry: "k"
dims { name: "NAME" default_value: 1000 }
dtypes: "f32"
args { name: "y" buffer { dtype: "f32" shape: "NAME" role: ROLE_OUTPUT } }
launch { grid: "1" block: "32" }
work { bytes: "8 * NAME" }
reference { entry: "r" launch { grid: "1" block: "1" } }
)spec",
                                               {{"NAME", name}});
  return Kernel::Create("k.textproto", spec, {{"k.cu", "text"}}).status();
}

// A dim would never get what its flag is given.
TEST(FlagsBesideDims, NoneIsTheNameOfADim) {
  const std::set<std::string> flags = FlagsBesideDims();
  EXPECT_THAT(flags, IsSupersetOf({"address", "all", "budget", "device", "help", "version"}));
  ASSERT_TRUE(CheckDimNamed("n").ok()) << CheckDimNamed("n");
  for (const std::string& flag : flags) {
    if (flag.find('-') != std::string::npos) continue;  // no name in a spec
    EXPECT_THAT(std::string(CheckDimNamed(flag).message()), HasSubstr(flag))
        << "--" << flag << " is not in the list of tuner/kernel/spec_checker.cc";
  }
}

}  // namespace
}  // namespace tune::client
