// SPDX-License-Identifier: Apache-2.0
// The tests' main: GoogleTest's, but a program whose cases were all skipped exits with 77, so that
// ctest says "Skipped", not "Passed": for tests that need a GPU, on a host that has none. A filter
// that matches no case is a failure: ctest's filters are made from the text of the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace {

constexpr int kSkipped = 77;

bool AllSkipped(const testing::UnitTest& unit) {
  return unit.skipped_test_count() > 0 && unit.successful_test_count() == 0;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) return failed;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test matches --gtest_filter=%s\n", GTEST_FLAG_GET(filter).c_str());
    return 1;
  }
  return AllSkipped(*testing::UnitTest::GetInstance()) ? kSkipped : 0;
}
