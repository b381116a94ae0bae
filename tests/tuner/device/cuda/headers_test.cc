// SPDX-License-Identifier: Apache-2.0
// docs/sources.md says which headers a kernel may include, and what it may do, on a GPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/docs_table.h"
#include "tuner/device/cuda/nvrtc_compiler.h"

namespace tune::cuda {
namespace {

TEST(NvrtcHeaders, AreThoseOfThePage) {
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeNvrtcCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  int allowed = 0;
  for (const std::vector<std::string>& row : TableRows("docs/sources.md")) {
    ASSERT_EQ(row.size(), 3u) << row[0];
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
