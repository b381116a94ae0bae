// SPDX-License-Identifier: Apache-2.0
// A comparison for people and for spreadsheets. Pure.
#pragma once

#include <string>

#include "client/report/svg_chart.h"
#include "tune/v1/comparison.pb.h"

namespace tune::client {

// The unit of the kernels' speed: a problem's work per second.
struct WorkRate {
  std::string unit;  // "B/s", "FLOP/s"; "1/s": no work is declared
  // The speed at a problem that takes this long.
  double Of(const v1::ComparedProblem& problem, double nanoseconds) const;
};
// FLOP/s where compute binds most problems, else bytes.
WorkRate RateOf(const v1::Comparison& comparison);

// Did every kernel run, with right results that agree?
bool AllRight(const v1::Comparison& comparison);

std::string TerminalText(const v1::Comparison& comparison);
// A line for each kernel on each problem, with the names of the dims in the first line.
std::string CsvText(const v1::Comparison& comparison);
// `image`: a link to the picture; empty: none.
std::string MarkdownText(const v1::Comparison& comparison, const std::string& image);
// Rate over the swept dim, a line for each kernel, and the roof beside them; of one problem, a
// point for each kernel.
SvgChart ComparisonChart(const v1::Comparison& comparison);

}  // namespace tune::client
