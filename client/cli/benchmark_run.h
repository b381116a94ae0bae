// SPDX-License-Identifier: Apache-2.0
// Runs Google Benchmark's registered cases, less one line of its own: distributions build the
// library with its asserts on, and then it warns above every result that its timings may be
// affected. Nothing that we time runs inside of it. Every other warning stays.
#pragma once

#include <cstddef>
#include <ostream>
#include <streambuf>
#include <string>

namespace tune::client {

// Passes lines on to another stream, as soon as they are whole, but for that one.
class WarningFilter : public std::streambuf {
 public:
  explicit WarningFilter(std::ostream& out) : out_(out) {}
  ~WarningFilter() override;
  WarningFilter(const WarningFilter&) = delete;
  WarningFilter& operator=(const WarningFilter&) = delete;

 protected:
  int_type overflow(int_type c) override;

 private:
  void EndLine();

  std::ostream& out_;
  std::string line_;
};

// After benchmark::Initialize. The number of cases that matched --benchmark_filter.
size_t RunBenchmarks();

}  // namespace tune::client
