// SPDX-License-Identifier: Apache-2.0
// docs/sources.md says which headers a kernel may include, and what it may do, on the CPU device.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/docs_table.h"
#include "tuner/device/cpu/cpu_compiler.h"

namespace tune::cpu {
namespace {

TEST(CpuHeaders, AreThoseOfThePage) {
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = MakeCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  int allowed = 0;
  for (const std::vector<std::string>& row : TableRows("docs/sources.md")) {
    ASSERT_EQ(row.size(), 3u) << row[0];
    CompilePlan plan;
    plan.target = "cpu";
    plan.source_name = "sample.cu";
    plan.entries = {"sample"};
    plan.source_text = SampleOf(row[0]);
    const absl::StatusOr<Artifact> variant = (*compiler)->Compile(plan);
    ASSERT_TRUE(variant.ok()) << variant.status();
    EXPECT_EQ(variant->outcome == Outcome::kOk, row[1] == "yes") << row[0] << variant->log;
    allowed += row[1] == "yes" ? 1 : 0;
  }
  EXPECT_GE(allowed, 5);
}

}  // namespace
}  // namespace tune::cpu
