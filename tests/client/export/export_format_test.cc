// SPDX-License-Identifier: Apache-2.0
#include "client/export/export_format.h"

#include <gmock/gmock.h>

namespace tune::client {
namespace {

constexpr char kSnapshot[] =
    R"({"kernels": [{"name": "softmax"}, {"name": "layernorm"}], "records": [
  {"kernel": "softmax", "config": {"ROWS": 1},
   "hard": {"dtype": "f32", "device": "H200", "dims": {"rows": 64}}},
  {"kernel": "softmax", "config": {"ROWS": 2},
   "hard": {"dtype": "bf16", "device": "H200", "dims": {"rows": 256}}},
  {"kernel": "rope", "config": {"ROWS": 2},
   "hard": {"dtype": "bf16", "device": "H200", "dims": {"rows": 256}}}]})";

std::string WhyNot(const ExportChoice& choice) {
  return std::string(ReadExportSource(kSnapshot, "sha256:1", choice).status().message());
}

TEST(ReadExportSource, TakesADataTypeInAnySpelling) {
  for (const char* dtype : {"bf16", "BF16", "bfloat16", "torch.bfloat16"}) {
    const auto source =
        ReadExportSource(kSnapshot, "sha256:1", {.kernel = "softmax", .dtype = dtype});
    ASSERT_TRUE(source.ok()) << dtype << ": " << source.status();
    ASSERT_EQ(source->records.size(), 1) << dtype;
    EXPECT_EQ(source->records[0].dtype, "bf16");
  }
}

TEST(ReadExportSource, SaysWhatThereIsIfNothingIsLeft) {
  EXPECT_EQ(WhyNot({.kernel = "softmax", .dtype = "fp16", .dims = {{"rows", 64}}}),
            "the snapshot has records of softmax, but none is left by --dtype fp16 --dim rows=64; "
            "there is: rows=256 bf16, rows=64 f32");
  EXPECT_EQ(WhyNot({.kernel = "softmx"}),
            "the snapshot has no record of softmx; did you mean 'softmax'?");
  EXPECT_EQ(WhyNot({.kernel = "layernrom"}),
            "the snapshot has no record of layernrom; did you mean 'layernorm'?");
  EXPECT_EQ(WhyNot({.kernel = "gemm"}),
            "the snapshot has no record of gemm; it has some of rope, softmax");
  EXPECT_EQ(WhyNot({.kernel = "softmax", .device = "A100"}),
            "the snapshot has no record of softmax on A100, only on H200");
}

}  // namespace
}  // namespace tune::client
