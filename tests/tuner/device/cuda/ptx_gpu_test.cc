// SPDX-License-Identifier: Apache-2.0
// A kernel of PTX on a GPU: as the cubin of a compile worker, and as text that the driver compiles.
#include "tests/tuner/device/cuda/gpu_fixture.h"
#include "tuner/device/cuda/ptx_compiler.h"

namespace tune::cuda {
namespace {

using ::testing::HasSubstr;

constexpr char kDouble[] = R"(.version 7.8
.target sm_70
.address_size 64
.visible .entry variant(.param .u64 x, .param .u64 y, .param .u64 n)
{
  .reg .pred %done;
  .reg .b32 %a, %b;
  .reg .f32 %v;
  .reg .b64 %i, %n, %x, %y;
  ld.param.u64 %n, [n];
  mov.u32 %a, %tid.x;
  cvt.u64.u32 %i, %a;
  mov.u32 %a, %ctaid.x;
  mov.u32 %b, %ntid.x;
  mad.wide.u32 %i, %a, %b, %i;
  setp.ge.u64 %done, %i, %n;
  @%done bra END;
  shl.b64 %i, %i, 2;
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  add.u64 %x, %x, %i;
  add.u64 %y, %y, %i;
  ld.global.f32 %v, [%x];
  add.rn.f32 %v, %v, %v;
  st.global.f32 [%y], %v;
END:
  ret;
}
)";

class PtxGpuTest : public GpuTest {};

TEST_F(PtxGpuTest, RunsAsACubinAndAsText) {
  ASSERT_TRUE(PrepareDoubling(100'003).ok());
  const auto compiler = MakePtxCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const auto artifact = (*compiler)->Compile({.language = Language::kPtx,
                                              .target = runner().info().target,
                                              .source_name = "double.ptx",
                                              .source_text = kDouble,
                                              .entries = {"variant"}});
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  ASSERT_EQ(artifact->outcome, Outcome::kOk) << artifact->log;
  for (const std::string& binary : {artifact->binary, std::string(kDouble)}) {
    RunRequest request = Doubling(kGood);
    request.program.binary = binary;
    const RunReport report = Run(request);
    EXPECT_EQ(report.outcome, Outcome::kOk) << report.message;
    EXPECT_GT(report.resources.registers, 0);
  }
}

TEST_F(PtxGpuTest, TextThatTheDriverDoesNotTakeIsExplained) {
  ASSERT_TRUE(PrepareDoubling(1000).ok());
  RunRequest request = Doubling(kGood);
  request.program.binary = kDouble;
  request.program.binary.replace(request.program.binary.find("add.rn"), 6, "add.xx");
  const RunReport report = Run(request);
  EXPECT_EQ(report.outcome, Outcome::kLaunchFailed);
  EXPECT_THAT(report.message, HasSubstr(".xx"));
}

}  // namespace
}  // namespace tune::cuda
