// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/report/markdown.h"
#include "client/report/svg_chart.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

TEST(PrintableTest, ControlCharactersAreShown) {
  EXPECT_EQ(Printable("\033[2J\033]0;title\a"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(Printable(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m")
      << "C1's CSI";
  EXPECT_EQ(Printable("\x9B"
                      "31m"),
            "\\x9b31m")
      << "the same where bytes are Latin-1";
  EXPECT_EQ(Printable("a\xE2\x80\xAE"
                      "b\xE2\x81\xA6"
                      "c\xD8\x9C"),
            "a\\u202eb\\u2066c\\u061c");
  EXPECT_EQ(Printable("over\rwritten"), "over\\x0dwritten");
}

TEST(PrintableTest, TextStays) {
  const std::string text = "tab\there\nZeile mit Umlaut \xC3\xBC, \xE2\x80\x93, \xF0\x9F\x98\x80\n";
  EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(Printable("a log of Windows\r\nhas these\r\n"), "a log of Windows\nhas these\n");
  for (const std::string& once :
       {Printable("\033"), Printable("\xff"), Printable("\xE2\x80\xAE")}) {
    EXPECT_EQ(Printable(once), once);
  }
}

TEST(PrintableTest, WhatIsNoUtf8IsShownByteByByte) {
  EXPECT_EQ(Printable("\xC0\x9B \xE2\x82"), "\\xc0\\x9b \\xe2\\x82");
  EXPECT_EQ(Printable("\xE0\x80\x9B"), "\\xe0\\x80\\x9b") << "overlong";
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
}

TEST(PrintableTest, PiecesGiveWhatTheWholeGives) {
  const std::string text = "\xE2\x80\xAE\r\n\r\xF0\x9F\x98\x80\033\xE2\x82";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      PrintableStream stream;
      std::string out = stream.Add(text.substr(0, first));
      out += stream.Add(text.substr(first, second - first));
      out += stream.Add(text.substr(second));
      EXPECT_EQ(out + stream.Finish(), Printable(text)) << first << " " << second;
    }
  }
}

TEST(PrintableTest, ReportsHaveNone) {
  const std::string bad = "\033[31m\xC2\x9B\xE2\x80\xAE|<";
  for (const std::string& text :
       {MarkdownCell(bad), MarkdownTable({"a"}, {{absl::StrCat("`", bad, "`")}}), EscapeXml(bad)}) {
    EXPECT_EQ(Printable(text), text);
  }
}

// Whatever a command prints, and with whatever function.
TEST(OutputFilterTest, AllThatIsPrintedIsFiltered) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    const OutputFilter filter;
    std::printf("%s\n", "one \033[31m");
    std::fputs("two \xE2\x80", stdout);
    std::fputs("\xAE\n", stdout);
    std::fputs(
        "\xff"
        "Bnot of ours\xff"
        "Z\n",
        stdout);
    std::putchar('\a');
    std::fprintf(stderr, "tunectl: %s\n", "three \033]0;x\a");
    std::fputs(
        "\xff"
        "B\n",
        stderr);
  }
  std::fputs("\033 after\n", stdout);
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "one \\x1b[31m\ntwo \\u202e\n\033[1mnot of ours\\xffZ\n\\x07\033 after\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tunectl: three \\x1b]0;x\\x07\n\\xffB\n");
}

}  // namespace
}  // namespace tune::client
