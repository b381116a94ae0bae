// SPDX-License-Identifier: Apache-2.0
#include "client/cli/benchmark_run.h"

#include <benchmark/benchmark.h>

#include <iostream>

namespace tune::client {
namespace {

constexpr char kBuiltWithAsserts[] = "***WARNING*** Library was built as DEBUG.";

}  // namespace

WarningFilter::~WarningFilter() {
  EndLine();
  out_.flush();
}

WarningFilter::int_type WarningFilter::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  line_ += traits_type::to_char_type(c);
  if (line_.back() == '\n') EndLine();
  return c;
}

void WarningFilter::EndLine() {
  if (line_.rfind(kBuiltWithAsserts, 0) != 0) out_ << line_ << std::flush;
  line_.clear();
}

size_t RunBenchmarks() {
  WarningFilter filter(std::cerr);
  std::ostream errors(&filter);
  benchmark::BenchmarkReporter* reporter = benchmark::CreateDefaultDisplayReporter();
  reporter->SetErrorStream(&errors);
  const size_t matched = benchmark::RunSpecifiedBenchmarks(reporter);
  reporter->SetErrorStream(&std::cerr);
  return matched;
}

}  // namespace tune::client
