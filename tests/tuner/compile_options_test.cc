// SPDX-License-Identifier: Apache-2.0
#include "tuner/compile_options.h"

#include <gtest/gtest.h>

namespace tune {
namespace {

TEST(IsAllowedNvrtcOption, LetsThroughWhatChoosesCode) {
  for (const char* option :
       {"--use_fast_math", "--ftz=true", "--prec-div=false", "--fmad=true", "--std=c++20",
        "--maxrregcount=64", "--maxrregcount=255", "--ptxas-options=--register-usage-level=10",
        "--extra-device-vectorization", "--restrict", "-lineinfo", "-DNDEBUG"}) {
    EXPECT_TRUE(IsAllowedNvrtcOption(option)) << option;
  }
}

TEST(IsAllowedNvrtcOption, RejectsTheRest) {
  for (const char* option : {"",
                             "-",
                             "-DX=1",
                             "-DNDEBUG=1",
                             "-I/usr/include",
                             "--include-path=/",
                             "--pre-include=/etc/passwd",
                             "-include=x",
                             "--create-pch=/tmp/x",
                             "--pch-dir=/tmp",
                             "--time=/tmp/x",
                             "--fdevice-time-trace=x",
                             "--std=c++98",
                             "--ftz=",
                             "--ftz=maybe",
                             "--maxrregcount=",
                             "--maxrregcount=0",
                             "--maxrregcount=256",
                             "--maxrregcount=64 -I/",
                             "--maxrregcount=+64",
                             "--maxrregcount=0x40",
                             "--ptxas-options=-v",
                             "--ptxas-options=--register-usage-level=11",
                             "--ptxas-options=--register-usage-level=1,-v",
                             "--use_fast_math ",
                             "--USE_FAST_MATH"}) {
    EXPECT_FALSE(IsAllowedNvrtcOption(option)) << option;
  }
}

}  // namespace
}  // namespace tune
