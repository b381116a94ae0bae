// SPDX-License-Identifier: Apache-2.0
#include "client/report/gate_report.h"

#include <gtest/gtest.h>

#include <string>

#include "client/cli/gate_call.h"
#include "client/report/history_view.h"
#include "gmock/gmock.h"

namespace tune::client {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::GateKernel Kernel(const std::string& name, v1::GateVerdict verdict) {
  v1::GateKernel kernel;
  kernel.set_name(name);
  kernel.mutable_problem()->set_dtype("bf16");
  kernel.set_verdict(verdict);
  if (verdict == v1::GATE_VERDICT_IDENTICAL) return kernel;
  kernel.set_ratio(1.031);
  kernel.set_ratio_low(1.028);
  kernel.set_ratio_high(1.034);
  kernel.set_deviation(0.005);
  kernel.set_least_caught(0.016);
  kernel.set_rounds(15);
  kernel.set_base_ns(35200);
  kernel.set_head_ns(36300);
  kernel.set_config_source(v1::GATE_CONFIG_SOURCE_RECORD);
  kernel.set_config_record_id(12);
  kernel.set_base_kernel_hash("b0");
  return kernel;
}

v1::GateRun RunOf(const std::vector<v1::GateKernel>& kernels) {
  v1::GateRun run;
  run.set_id(7);
  run.set_state(v1::JOB_STATE_DONE);
  run.set_device_name("NVIDIA H200");
  run.set_base_label("0123456789abcdef0123456789abcdef01234567");
  run.set_head_label("topic <&>");
  run.mutable_rules()->set_delta0(0.01);
  run.mutable_rules()->set_alpha(0.01);
  for (const v1::GateKernel& kernel : kernels) {
    *run.add_kernels() = kernel;
    ++(*run.mutable_verdicts())[ToText(kernel.verdict())];
  }
  return run;
}

TEST(GateReport, ALineHasRatioIntervalDeviationAndWhatItCatches) {
  const std::string text = ReportText(RunOf({Kernel("softmax", v1::GATE_VERDICT_FAIL)}));
  EXPECT_THAT(text, HasSubstr("0123456789ab -> topic"));
  EXPECT_THAT(text, HasSubstr("+3.10 %"));
  EXPECT_THAT(text, HasSubstr("+2.80 to +3.40 %"));
  EXPECT_THAT(text, HasSubstr("0.50 %"));
  EXPECT_THAT(text, HasSubstr("1.6 %"));
  EXPECT_THAT(text, HasSubstr("35.20 us -> 36.30 us"));
  EXPECT_THAT(text, HasSubstr("the same config is slower"));
  EXPECT_THAT(text, HasSubstr("1 FAIL"));
}

TEST(GateReport, AnotherConfigThatWonIsTold) {
  v1::GateKernel kernel = Kernel("softmax", v1::GATE_VERDICT_FAIL);
  kernel.mutable_recovery()->set_ratio(0.998);
  kernel.mutable_recovery()->set_recovers(true);
  EXPECT_THAT(ReportText(RunOf({kernel})), HasSubstr("another config won"));
  kernel.mutable_recovery()->set_ratio(1.02);
  kernel.mutable_recovery()->set_recovers(false);
  EXPECT_THAT(ReportText(RunOf({kernel})), HasSubstr("does not recover it: +2.00 %"));
}

TEST(GateReport, JUnitCountsAndEscapes) {
  const v1::GateRun run =
      RunOf({Kernel("a<b", v1::GATE_VERDICT_FAIL), Kernel("b", v1::GATE_VERDICT_INVALID),
             Kernel("c", v1::GATE_VERDICT_INCONCLUSIVE), Kernel("d", v1::GATE_VERDICT_IDENTICAL)});
  const std::string relaxed = JUnitText(run, Strict::kNo);
  EXPECT_THAT(relaxed, HasSubstr("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""));
  EXPECT_THAT(relaxed, HasSubstr("a&lt;b"));
  EXPECT_THAT(relaxed, HasSubstr("topic &lt;&amp;&gt;"));
  EXPECT_THAT(relaxed, Not(HasSubstr("a<b")));
  const std::string strict = JUnitText(run, Strict::kYes);
  EXPECT_THAT(strict, HasSubstr("tests=\"4\" failures=\"2\" errors=\"1\" skipped=\"0\""));
}

TEST(GateReport, MarkdownIsATableThatNoNameBreaks) {
  v1::GateKernel kernel = Kernel("a|b", v1::GATE_VERDICT_FAIL);
  kernel.set_reason("one\ntwo");
  const std::string text = MarkdownText(RunOf({kernel}));
  EXPECT_THAT(text, HasSubstr("### Slower kernels: 1 FAIL"));
  EXPECT_THAT(text, HasSubstr("| a\\|b |"));
  EXPECT_THAT(text, HasSubstr("**FAIL**"));
  EXPECT_THAT(text, HasSubstr("at most 1.0 % of the time"));
}

TEST(GateReport, ExitCodes) {
  const auto code = [](std::vector<v1::GateKernel> kernels, Strict strict = Strict::kNo) {
    return ExitCodeOf(RunOf(kernels), strict);
  };
  const v1::GateKernel pass = Kernel("p", v1::GATE_VERDICT_PASS);
  const v1::GateKernel unsure = Kernel("u", v1::GATE_VERDICT_UNGUARDED);
  EXPECT_EQ(code({pass, Kernel("i", v1::GATE_VERDICT_IDENTICAL)}), kDone);
  EXPECT_EQ(code({pass, unsure}), kDone);
  EXPECT_EQ(code({pass, unsure}, Strict::kYes), kGateUnsure);
  EXPECT_EQ(code({pass, Kernel("x", v1::GATE_VERDICT_INVALID)}), kGateUnsure);
  EXPECT_EQ(code({Kernel("x", v1::GATE_VERDICT_INVALID), Kernel("f", v1::GATE_VERDICT_FAIL)}),
            kGateFailed);
  v1::GateRun stopped = RunOf({pass});
  stopped.set_state(v1::JOB_STATE_FAILED);
  EXPECT_EQ(ExitCodeOf(stopped, Strict::kNo), kFailed);
}

TEST(GateFlags, Shares) {
  EXPECT_DOUBLE_EQ(*ParseShare("--delta0", "1%"), 0.01);
  EXPECT_DOUBLE_EQ(*ParseShare("--delta0", "0.02"), 0.02);
  for (const char* wrong : {"", "%", "-1%", "x", "1%%", "nan", "1 per cent"}) {
    EXPECT_FALSE(ParseShare("--delta0", wrong).ok()) << wrong;
  }
}

v1::HistorySeries ShortSeries() {
  v1::HistorySeries series;
  series.set_kernel_name("softmax");
  series.set_device_name("cpu:<x>");
  for (int i = 0; i < 10; ++i) {
    v1::HistoryPoint* point = series.add_points();
    const double ns = i < 6 ? 1000 : 1040;
    point->set_label("commit");
    point->set_latency_ns(ns);
    point->set_latency_ns_low(ns - 5);
    point->set_latency_ns_high(ns + 5);
  }
  v1::HistoryChange* change = series.add_changes();
  change->set_index(6);
  change->set_before_ns(1000);
  change->set_after_ns(1040);
  change->set_p(1e-6);
  return series;
}

TEST(HistoryView, TextMarksTheChange) {
  const std::string text = HistoryText(ShortSeries());
  EXPECT_THAT(text, HasSubstr("<-- change"));
  EXPECT_THAT(text, HasSubstr("slower +4.0 % at commit (1.000 us -> 1.040 us"));
}

TEST(HistoryView, AShortSeriesSaysWhatItLacks) {
  v1::HistorySeries series = ShortSeries();
  series.clear_changes();
  EXPECT_EQ(HistoryText(series).find("it takes two or more"), std::string::npos);
  while (series.points_size() > 3) series.mutable_points()->RemoveLast();
  EXPECT_NE(HistoryText(series).find("no change found; between runs it takes two or more"),
            std::string::npos);
}

TEST(HistoryView, SvgHasAPointForEachAndIsEscaped) {
  v1::GetHistoryResponse history;
  *history.add_series() = ShortSeries();
  const std::string svg = HistorySvg(history);
  size_t points = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) {
    ++points;
  }
  EXPECT_EQ(points, 10);
  EXPECT_THAT(svg, HasSubstr("cpu:&lt;x&gt;"));
  EXPECT_THAT(svg, HasSubstr("slower +4.0 % at commit"));
  *history.add_series() = ShortSeries();
  EXPECT_THAT(HistorySvg(history), HasSubstr("translate(0 300)"));
  EXPECT_THAT(HistorySvg({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace tune::client
