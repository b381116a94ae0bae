// SPDX-License-Identifier: Apache-2.0
#include "client/report/html_page.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"
#include "client/report/comparison_view.h"
#include "client/report/fusion_view.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_chart.h"
#include "client/report/sweep_report_view.h"
#include "google/protobuf/util/json_util.h"

namespace tune {
namespace embedded {
extern const std::string_view report_page_html;
extern const std::string_view report_page_css;
extern const std::string_view report_page_js;
extern const std::string_view report_roofline_js;
extern const std::string_view report_sweep_js;
extern const std::string_view report_comparison_js;
extern const std::string_view report_fusion_js;
extern const std::string_view report_chart_js;
}  // namespace embedded

namespace client {
namespace {

constexpr size_t kMessageBytesMax = 400;  // of a trial; the database has the whole log

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// JSON between script tags: nothing in it may end the script or open a comment.
std::string ScriptJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails only for messages with an invalid Any, which ours do not have.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  // Characters that steer text are escaped as JSON does, such as "\u202e".
  return absl::StrReplaceAll(Printable(json),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

void CutMessage(v1::Trial& trial) {
  std::string& message = *trial.mutable_message();
  if (message.size() <= kMessageBytesMax) return;
  size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  message.resize(end);
  message += "...";
}

struct PageParts {
  std::string title;
  std::string json;
  std::string_view script;
  std::string still_picture;  // for readers without scripts
};

// Fills the template in one pass, so that no part can be mistaken for a place.
std::string Assemble(const PageParts& parts) {
  const std::pair<absl::string_view, absl::string_view> places[] = {
      {"{{style}}", View(embedded::report_page_css)},
      {"{{data}}", parts.json},
      {"{{library}}", View(embedded::report_chart_js)},
      {"{{page}}", View(embedded::report_page_js)},
      {"{{script}}", View(parts.script)},
      {"{{still}}", parts.still_picture}};
  const std::string title = EscapeXml(parts.title);
  absl::string_view rest = View(embedded::report_page_html);
  std::string page;
  while (true) {
    const size_t at = rest.find("{{");
    absl::StrAppend(&page, rest.substr(0, at));
    if (at == absl::string_view::npos) return page;
    rest.remove_prefix(at);
    const size_t end = rest.find("}}") + 2;
    const absl::string_view place = rest.substr(0, end);
    rest.remove_prefix(end);
    if (place == "{{title}}") absl::StrAppend(&page, title);
    for (const auto& [name, text] : places) {
      if (place == name) absl::StrAppend(&page, text);
    }
  }
}

}  // namespace

std::string HtmlPage(const v1::RooflineReport& report) {
  v1::RooflineReport data = report;
  for (v1::Roofline& roofline : *data.mutable_rooflines()) {
    for (v1::RooflinePoint& point : *roofline.mutable_points()) {
      CutMessage(*point.mutable_trial());
    }
  }
  const std::string subject = report.rooflines_size() == 1
                                  ? SubjectText(report.rooflines(0).sweep())
                                  : absl::StrCat(report.rooflines_size(), " problems");
  return Assemble({.title = absl::StrCat("Roofline: ", subject),
                   .json = ScriptJson(data),
                   .script = embedded::report_roofline_js,
                   .still_picture = ToSvg(ReportChart(report))});
}

std::string HtmlPage(const v1::SweepReport& report) {
  return Assemble(
      {.title = absl::StrCat("Sweep ", report.sweep().id(), ": ", SubjectText(report.sweep())),
       .json = ScriptJson(report),
       .script = embedded::report_sweep_js,
       .still_picture = SvgText(report)});
}

std::string HtmlPage(const v1::Comparison& comparison) {
  return Assemble(
      {.title = absl::StrCat("Comparison ", comparison.id(), ": ", comparison.subject()),
       .json = ScriptJson(comparison),
       .script = embedded::report_comparison_js,
       .still_picture = ToSvg(ComparisonChart(comparison))});
}

std::string HtmlPage(const v1::FusionReport& report) {
  return Assemble({.title = absl::StrCat("Fusions: ", report.name()),
                   .json = ScriptJson(report),
                   .script = embedded::report_fusion_js,
                   .still_picture = ToSvg(FusionChart(report))});
}

}  // namespace client
}  // namespace tune
