// SPDX-License-Identifier: Apache-2.0
// Reports as HTML: the pictures of svg_chart.h, the tables and sentences of the Markdown, style,
// and a script for hover, filters and sorting. As one file a page needs nothing else; the daemon's
// page (client/web) has the same parts and links to its style and script.
#pragma once

#include <string>

#include "tune/v1/comparison.pb.h"
#include "tune/v1/fusion.pb.h"
#include "tune/v1/report.pb.h"

namespace tune::client {

struct PageParts {
  std::string title;   // text
  std::string body;    // HTML
  std::string footer;  // text
};

PageParts PartsOf(const v1::RooflineReport& report);
PageParts PartsOf(const v1::SweepReport& report);
PageParts PartsOf(const v1::Comparison& comparison);
PageParts PartsOf(const v1::FusionReport& report);

// A page as one file.
std::string HtmlFile(const PageParts& parts);
template <typename Report>
std::string HtmlPage(const Report& report) {
  return HtmlFile(PartsOf(report));
}

// A page as a server sends it, under a policy that allows nothing inline.
struct PageLinks {
  std::string style;   // the path of PageStyle
  std::string script;  // the path of PageScript
  std::string icon;
  std::string navigation;  // HTML before the body
};
std::string LinkedPage(const PageParts& parts, const PageLinks& links);
std::string PageStyle();
std::string PageScript();

// A picture as a part of a page, whose style has what the picture brings along as a file.
std::string Figure(const std::string& svg);

}  // namespace tune::client
