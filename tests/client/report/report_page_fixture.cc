// SPDX-License-Identifier: Apache-2.0
// Prints a page for the browser test:
// report_page_fixture roofline|rooflines|sweep|comparison|fusion.
#include <cstdio>
#include <string>

#include "client/report/html_page.h"
#include "tests/client/report/report_fixture.h"

int main(int argc, char** argv) {
  using namespace tune::client;
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "roofline") std::fputs(HtmlPage(SketchReport(1)).c_str(), stdout);
  if (what == "rooflines") std::fputs(HtmlPage(SketchReport(3)).c_str(), stdout);
  if (what == "sweep") std::fputs(HtmlPage(SketchSweepReport()).c_str(), stdout);
  if (what == "comparison") std::fputs(HtmlPage(SketchComparison()).c_str(), stdout);
  if (what == "fusion") std::fputs(HtmlPage(SketchFusions()).c_str(), stdout);
  return 0;
}
