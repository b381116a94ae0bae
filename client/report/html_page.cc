// SPDX-License-Identifier: Apache-2.0
#include "client/report/html_page.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/report/comparison_view.h"
#include "client/report/format.h"
#include "client/report/fusion_view.h"
#include "client/report/html_text.h"
#include "client/report/roofline_trials.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_chart.h"
#include "client/report/svg_style.h"
#include "client/report/sweep_report_view.h"

namespace tune {
namespace embedded {
extern const std::string_view report_page_html;
extern const std::string_view report_page_css;
extern const std::string_view report_page_js;
}  // namespace embedded

namespace client {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Fills the template in one pass, so that no part can be mistaken for a placeholder.
std::string Assemble(const std::string& title, const std::string& head, const std::string& body,
                     const std::string& script) {
  const std::string escaped = EscapeXml(title);
  const std::pair<absl::string_view, absl::string_view> parts[] = {
      {"{{title}}", escaped}, {"{{head}}", head}, {"{{body}}", body}, {"{{script}}", script}};
  absl::string_view rest = View(embedded::report_page_html);
  std::string page;
  while (true) {
    const size_t at = rest.find("{{");
    absl::StrAppend(&page, rest.substr(0, at));
    if (at == absl::string_view::npos) return page;
    rest.remove_prefix(at);
    const size_t end = rest.find("}}") + 2;
    for (const auto& [name, text] : parts) {
      if (rest.substr(0, end) == name) absl::StrAppend(&page, text);
    }
    rest.remove_prefix(end);
  }
}

std::string PictureOf(const std::string& svg) {
  return absl::StrReplaceAll(svg, {{PictureStyle(), ""}, {kPictureSize, ""}});
}

std::string Section(const std::string& html) {
  return absl::StrCat("<section class=\"card\">\n", html, "</section>\n");
}

// Whether a config came that was faster than the first good one: else a plot of it has no step.
bool Improved(const v1::SweepReport& report) {
  const auto& points = report.timeline();
  return !points.empty() && points.rbegin()->best_latency_ns() < points.begin()->best_latency_ns();
}

std::string FooterText(const std::string& text, const std::string& version, int64_t unix_ms) {
  std::string written;
  if (!version.empty()) absl::StrAppend(&written, " Written by tunectl ", version);
  if (!version.empty() && unix_ms > 0) absl::StrAppend(&written, " on ", TimeText(unix_ms));
  return absl::StrCat(text, written, written.empty() ? "" : ".");
}

// Draws the roofline once for each further level of memory whose bytes were counted.
std::string OtherLevels(const v1::Roofline& roofline) {
  std::string html;
  for (const v1::RooflineResource level :
       {v1::ROOFLINE_RESOURCE_L3, v1::ROOFLINE_RESOURCE_L2, v1::ROOFLINE_RESOURCE_L1,
        v1::ROOFLINE_RESOURCE_SHARED}) {
    const SvgChart chart = RooflineChart(roofline, level);
    if (chart.points.empty()) continue;
    absl::StrAppend(&html, "<details><summary>By the bytes of ",
                    absl::AsciiStrToUpper(ToText(level)), "</summary>\n", Figure(ToSvg(chart)),
                    "</details>\n");
  }
  return html;
}

}  // namespace

std::string Figure(const std::string& svg) {
  return absl::StrCat("<figure>\n", PictureOf(svg), "</figure>\n");
}

PageParts PartsOf(const v1::RooflineReport& report) {
  const bool one = report.rooflines_size() == 1;
  const std::string subject = one ? SubjectText(report.rooflines(0).sweep())
                                  : absl::StrCat(report.rooflines_size(), " problems");
  std::string body =
      absl::StrCat("<h1>", EscapeXml(absl::StrCat("Roofline: ", subject)), "</h1>\n");
  if (!one) {
    absl::StrAppend(&body, Section(HtmlOfMarkdown(MarkdownOverview(report, "0"),
                                                  {PictureOf(ToSvg(ReportChart(report)))})));
  }
  for (const v1::Roofline& roofline : report.rooflines()) {
    const SvgChart latencies = LatencyChart(roofline);
    absl::StrAppend(
        &body, Section(absl::StrCat(HtmlOfMarkdown(MarkdownSection(roofline), {}),
                                    Figure(ToSvg(RooflineChart(roofline))), OtherLevels(roofline),
                                    latencies.points.empty() ? "" : Figure(ToSvg(latencies)),
                                    TrialsTable(roofline))));
  }
  return {absl::StrCat("Roofline: ", subject), std::move(body),
          FooterText("\"Of its roof\" is the least time that the busiest resource needs over the "
                     "measured time. Below 60 % no resource is the limit; above 80 % little is "
                     "left; above 103 % nothing is believed.",
                     report.version(), report.created_unix_ms())};
}

PageParts PartsOf(const v1::SweepReport& report) {
  std::string pictures;
  if (!report.params().empty()) absl::StrAppend(&pictures, Figure(ToSvg(EffectsChart(report))));
  if (report.has_heatmap()) absl::StrAppend(&pictures, Figure(ToSvg(PairHeatmap(report))));
  for (const TimelineBy by : {TimelineBy::kTrials, TimelineBy::kSeconds}) {
    if (!Improved(report)) break;
    absl::StrAppend(&pictures, Figure(ToSvg(TimelineChart(report, by))));
  }
  return {
      absl::StrCat("Sweep ", report.sweep().id(), ": ", SubjectText(report.sweep())),
      absl::StrCat(Section(HtmlOfMarkdown(MarkdownText(report, ""), {})),
                   pictures.empty() ? "" : Section(pictures)),
      FooterText("Shares are of the variance of log latency, adjusted for the number of values.",
                 report.version(), report.created_unix_ms())};
}

PageParts PartsOf(const v1::Comparison& comparison) {
  return {absl::StrCat("Comparison ", comparison.id(), ": ", comparison.subject()),
          Section(HtmlOfMarkdown(MarkdownText(comparison, "0"),
                                 {PictureOf(ToSvg(ComparisonChart(comparison)))})),
          "Each round measures every kernel once, in fresh processes, in an order of its own."};
}

PageParts PartsOf(const v1::FusionReport& report) {
  return {
      absl::StrCat("Fusions: ", report.name()),
      Section(HtmlOfMarkdown(MarkdownText(report, "0"), {PictureOf(ToSvg(FusionChart(report)))})),
      FooterText("A sequence's time is the sum of its kernels', each measured by itself with a "
                 "cold cache.",
                 report.version(), report.created_unix_ms())};
}

std::string PageStyle() {
  return absl::StrCat(
      View(embedded::report_page_css),
      absl::StripSuffix(absl::StripPrefix(PictureStyle(), "<style>\n"), "</style>\n"));
}

std::string PageScript() { return std::string(View(embedded::report_page_js)); }

std::string HtmlFile(const PageParts& parts) {
  return Assemble(
      parts.title,
      absl::StrCat("<meta http-equiv=\"Content-Security-Policy\"\n      content=\"default-src "
                   "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<style>\n",
                   PageStyle(), "</style>"),
      absl::StrCat(parts.body, "<footer>", EscapeXml(parts.footer),
                   " This file needs no network.</footer>\n"),
      absl::StrCat("<script>\n", PageScript(), "</script>"));
}

std::string LinkedPage(const PageParts& parts, const PageLinks& links) {
  return Assemble(parts.title,
                  absl::StrCat("<link rel=\"stylesheet\" href=\"", links.style,
                               "\">\n<link rel=\"icon\" href=\"", links.icon, "\">"),
                  absl::StrCat(links.navigation, parts.body, "<footer>", EscapeXml(parts.footer),
                               "</footer>\n"),
                  absl::StrCat("<script src=\"", links.script, "\"></script>"));
}

}  // namespace client
}  // namespace tune
