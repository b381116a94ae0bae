// SPDX-License-Identifier: Apache-2.0
// docs/sources.md says which headers a kernel may include, and what it may do, on a GPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/docs_table.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/toolkit.h"

namespace tune::cuda {
namespace {

// The header of a library that is installed by itself, as each of NVIDIA's wheels is, and is not.
bool IsOfAMissingLibrary(const std::string& row) {
  const absl::StatusOr<Toolkit> toolkit = FindToolkit();
  return toolkit.ok() && row == "<curand_kernel.h>" &&
         !std::filesystem::exists(toolkit->include_dir + "/curand_kernel.h");
}

TEST(NvrtcHeaders, AreThoseOfThePage) {
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  int allowed = 0;
  for (const std::vector<std::string>& row : TableRows("docs/sources.md")) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    if (IsOfAMissingLibrary(row[0])) continue;
    for (const char* target : {"sm_80", "sm_90a"}) {
      CompilePlan plan;
      plan.target = target;
      plan.source_name = "sample.cu";
      plan.entries = {"sample"};
      plan.source_text = SampleOf(row[0]);
      const absl::StatusOr<Artifact> variant = (*compiler)->Compile(plan);
      ASSERT_TRUE(variant.ok()) << variant.status();
      EXPECT_EQ(variant->outcome == Outcome::kOk, row[2] == "yes") << row[0] << variant->log;
    }
    allowed += row[2] == "yes" ? 1 : 0;
  }
  EXPECT_GE(allowed, 5);
}

}  // namespace
}  // namespace tune::cuda
