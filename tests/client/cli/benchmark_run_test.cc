// SPDX-License-Identifier: Apache-2.0
#include "client/cli/benchmark_run.h"

#include <benchmark/benchmark.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace tune::client {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(BenchmarkRun, DropsTheLibrarysWordOnItselfAndNothingElse) {
  std::ostringstream out;
  {
    WarningFilter filter(out);
    std::ostream stream(&filter);
    stream << "Run on (2 X 2000 MHz CPUs)\n"
           << "***WARNING*** Library was built as DEBUG. Timings may be affected.\n"
           << "***WARNING*** CPU scaling is enabled." << std::endl
           << "ERROR: Library was built as DEBUG.\nno line break at the end";
  }
  EXPECT_EQ(out.str(),
            "Run on (2 X 2000 MHz CPUs)\n***WARNING*** CPU scaling is enabled.\n"
            "ERROR: Library was built as DEBUG.\nno line break at the end");
}

TEST(BenchmarkRun, TheRealLibrarySaysItsContextAndNoDebug) {
  std::string name = "test";
  char* argv[] = {name.data(), nullptr};
  int argc = 1;
  benchmark::Initialize(&argc, argv);
  benchmark::RegisterBenchmark("nothing",
                               [](benchmark::State& state) {
                                 for (auto _ : state) state.SetIterationTime(1e-3);
                               })
      ->UseManualTime()
      ->Iterations(2);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunBenchmarks(), 1u);
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("nothing/"));
  EXPECT_THAT(errors, HasSubstr("Run on"));
  EXPECT_THAT(errors, Not(HasSubstr("DEBUG")));
  benchmark::Shutdown();
}

}  // namespace
}  // namespace tune::client
