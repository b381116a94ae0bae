// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/source_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tuner/plan.h"

namespace tune {
namespace {

using testing::HasSubstr;

CompilePlan PlanOf(const std::string& target, const std::string& text) {
  CompilePlan plan;
  plan.target = target;
  plan.source_name = "sample.cu";
  plan.source_text = text;
  plan.headers = {
      {"mine.h", "#pragma once\n"}, {"parts/a.h", "#include \"b.h\"\n"}, {"parts/b.h", "\n"}};
  return plan;
}

struct Escape {
  const char* what;
  const char* text;
  int line;
};

const Escape kEscapes[] = {
    {"absolute", "#include \"/etc/passwd\"\n", 1},
    {"absolute, angle brackets", "int x;\n#include </etc/passwd>\n", 2},
    {"parent", "#include \"../../etc/passwd\"\n", 1},
    {"parent further in", "#include <cuda/../../../etc/passwd>\n", 1},
    {"spaces", " \t#\t include  \"/etc/passwd\"\n", 1},
    {"no space", "#include\"/etc/passwd\"\n", 1},
    {"digraph", "%:include \"/etc/passwd\"\n", 1},
    {"joined lines", "#inc\\\nlude \"/etc/pas\\\nswd\"\n", 1},
    {"joined lines, CR", "#inc\\\r\nlude \"/etc/passwd\"\r\n", 1},
    {"joined after a comment", "// a \\\n#include <x>\n#include \"/etc/passwd\"\n", 3},
    {"space after the backslash", "// a \\ \n#include \"/etc/passwd\"\n", 1},
    {"comment between", "#/**/include/* x */\"/etc/passwd\"\n", 1},
    {"comment before", "/* a\n b */ #include \"/etc/passwd\"\n", 2},
    {"comment in the name", "#include <mine.h/*x*//../../etc/passwd>\n", 1},
    {"comment start in a string", "const char* a = \"/*\";\n#include \"/etc/passwd\"\n", 2},
    {"comment start in a raw string", "auto a = R\"(\"/*)\";\n#include \"/etc/passwd\"\n", 2},
    {"raw string with a delimiter", "auto a = R\"x(\n)\"/*)x\";\n#include \"/etc/passwd\"\n", 3},
    {"quote in a character", "char a = '\"'; // \"\n#include \"/etc/passwd\"\n", 2},
    {"digit separator", "int a = 1'000; //'\n#include \"/etc/passwd\"\n", 2},
    {"byte order mark", "\xEF\xBB\xBF#include \"/etc/passwd\"\n", 1},
    {"form feed", "\f#include \"/etc/passwd\"\n", 1},
    {"computed", "#define X \"/etc/passwd\"\n#include X\n", 2},
    {"backslash", "#include \"..\\\\etc\\\\passwd\"\n", 1},
    {"not closed", "#include \"mine.h\n", 1},
    {"include_next", "#include_next \"/etc/passwd\"\n", 1},
    {"import", "#import \"/etc/passwd\"\n", 1},
    {"embed", "const char a[] = {\n#embed \"/etc/passwd\"\n};\n", 2},
    {"has_include", "#if __has_include(\"/etc/passwd\")\n#endif\n", 1},
    {"has_include, angle brackets", "#if __has_include(<../etc/passwd>)\n#endif\n", 1},
    {"has_include computed", "#define X </etc/passwd>\n#if __has_include(X)\n#endif\n", 2},
    {"has_include hidden", "#define X __has_include\n#if X(\"/etc/passwd\")\n#endif\n", 1},
    {"has_include pasted",
     "#define X(a, b) a##b\n#if X(__has_inc, lude)(\"/etc/passwd\")\n#endif\n", 2},
    {"has_include pasted by the system's macro",
     "#if __CONCAT(__has_inc, lude)(\"/etc/passwd\")\n#endif\n", 1},
    {"has_embed", "#if __has_embed(\"/etc/passwd\")\n#endif\n", 1},
    {"unknown directive", "#sccs \"/etc/passwd\"\n", 1},
    {"trigraph", "?\?=include \"/etc/passwd\"\n", 1},
};

TEST(SourceCheckTest, RefusesEveryEscapeAndNamesItsLine) {
  for (const char* target : {"cpu", "sm_90a"}) {
    for (const Escape& escape : kEscapes) {
      const absl::Status status = CheckIncludes(PlanOf(target, escape.text));
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << target << ": " << escape.what;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("sample.cu:" + std::to_string(escape.line) + ": "))
          << escape.what;
    }
  }
}

const Escape kCpuEscapes[] = {
    {"folder", "#include <sys/stat.h>\n", 1},
    {"pragma", "#pragma GCC dependency \"/etc/passwd\"\n", 1},
    {"pragma with a space", "# pragma GCC pch_preprocess \"/etc/passwd\"\n", 1},
    {"_Pragma", "_Pragma(\"GCC dependency \\\"/etc/passwd\\\"\")\n", 1},
    {"_Pragma hidden", "#define X(a) _Pragma(#a)\nX(GCC dependency \"/etc/passwd\")\n", 1},
    {"line", "#line 1 \"/etc/passwd\"\n", 1},
    {"line marker", "# 1 \"/etc/passwd\" 1\n", 1},
    {"line computed", "#define X 1 \"/etc/passwd\"\n#line X\n", 2},
    {"incbin", "asm(\".incbin \\\"/etc/passwd\\\"\");\n", 1},
    {"incbin in two", "asm(\".inc\" \"bin \\\"/etc/passwd\\\"\");\n", 1},
    {"incbin escaped", "asm(\"\\x2eincbin\");\n", 1},
    {"include", "const char* a = R\"(.include \"x\")\";\n", 1},
};

TEST(SourceCheckTest, RefusesEscapesOfTheSystemsCompiler) {
  for (const Escape& escape : kCpuEscapes) {
    const absl::Status status = CheckIncludes(PlanOf("cpu", escape.text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << escape.what;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("sample.cu:" + std::to_string(escape.line) + ": "))
        << escape.what;
  }
}

TEST(SourceCheckTest, AllowsWhatKernelsDo) {
  const char* kTexts[] = {
      "#include \"mine.h\"\n#include <mine.h>\n#include \"parts/a.h\"\n#include <cstdint>\n",
      "// #include \"/etc/passwd\"\n/*\n#include \"/etc/passwd\"\n*/\n",
      "auto a = R\"(\n#include \"/etc/passwd\"\n)\";\nconst char* b = \"#include </etc>\";\n",
      "#if 0\nthis isn't code\n#endif\n#error don't\n",
      "#pragma unroll 4\n#pragma once\n_Pragma(\"unroll\")\n#pragma GCC unroll 8\n",
      "#if defined(__has_include) && __has_include(<cstdint>)\n#endif\n"
      "#ifdef __has_include\n#endif\n",
      "#define PASTE(a, b) a##b\n#define BIG(x) ((x) > 4)\n"
      "#if BIG(WIDTH) && defined(WIDTH)\n#endif\n",
      "#line 7\n#line 9 \"sample.cu\"\n#\n",
  };
  for (const char* target : {"cpu", "sm_90a"}) {
    for (const char* text : kTexts) {
      const absl::Status status = CheckIncludes(PlanOf(target, text));
      EXPECT_TRUE(status.ok()) << status << "\n" << text;
    }
  }
  EXPECT_TRUE(CheckIncludes(PlanOf("sm_90a", "#include <cuda/std/type_traits>\n")).ok());
}

TEST(SourceCheckTest, ChecksHeadersAndMacros) {
  CompilePlan plan = PlanOf("sm_90a", "");
  plan.headers.push_back({"bad.h", "\n\n#include \"/etc/passwd\"\n"});
  EXPECT_THAT(std::string(CheckIncludes(plan).message()), HasSubstr("bad.h:3: "));
  plan = PlanOf("sm_90a", "");
  plan.defines = {{"X", "__has_include(\"/etc/passwd\")"}};
  EXPECT_THAT(std::string(CheckIncludes(plan).message()), HasSubstr("macro X:1: "));
}

TEST(SourceCheckTest, SaysWhatIsAllowed) {
  const absl::Status status = CheckIncludes(PlanOf("cpu", "#include \"other/lost.h\"\n"));
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("mine.h, parts/a.h"), HasSubstr("<cstdint>")));
}

// docs/sources.md describes headers that exist on one kind of target only.
TEST(SourceCheckTest, AHeaderInASkippedBranchNeedNotExist) {
  for (const char* condition :
       {"#ifndef TUNE_CPU", "#if !defined(__CUDACC_RTC__) && !defined(TUNE_CPU)",
        "#ifdef TUNE_CPU\n#else", "#if WIDTH && !TUNE_CPU"}) {
    const std::string text = absl::StrCat("#ifndef S_H\n#define S_H\n", condition,
                                          "\n#include <cub/cub.cuh>\n#endif\n#endif\n");
    EXPECT_TRUE(CheckIncludes(PlanOf("cpu", text)).ok()) << condition;
  }
  for (const char* condition :
       {"#ifdef TUNE_CPU", "#if !defined(OTHER) && !defined(__CUDACC_RTC__)",
        "#if !defined(TUNE_CPU) || WIDTH", "#ifndef S_H"}) {
    const std::string text = absl::StrCat(condition, "\n#include <cub/cub.cuh>\n#endif\n");
    EXPECT_THAT(std::string(CheckIncludes(PlanOf("cpu", text)).message()),
                HasSubstr("sample.cu:2: <cub/cub.cuh> is not there on the CPU device"))
        << condition;
  }
  const char* absolute = "#ifndef TUNE_CPU\n#include </etc/passwd>\n#endif\n";
  EXPECT_FALSE(CheckIncludes(PlanOf("cpu", absolute)).ok());
}

}  // namespace
}  // namespace tune
