// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/check_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tune::server {
namespace {

using testing::HasSubstr;

v1::CheckKernelResponse Written(const CheckFindings& findings) {
  v1::CheckKernelResponse response;
  findings.Write(response);
  return response;
}

constexpr char kGcc[] =
    "saxpy.cu: In function 'void saxpy(float*)':\n"
    "saxpy.cu:17:43: error: 'lost' was not declared in this scope\n   17 |     lost\n";
constexpr char kNvrtc[] =
    "saxpy.cu(17): error: identifier \"lost\" is undefined\n      lost\n\n1 error detected\n";

TEST(CheckFindings, OneMistakeOnManyTargetsIsOneFinding) {
  CheckFindings findings;
  for (const char* target :
       {"cpu", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100"}) {
    for (const char* variant : {"reference", "BLOCK=32", "BLOCK=64"}) {
      findings.AddCompile(target, variant, std::string(target) == "cpu" ? kGcc : kNvrtc);
    }
  }
  const v1::CheckKernelResponse response = Written(findings);
  ASSERT_EQ(response.findings_size(), 1) << response.DebugString();
  const v1::CheckFinding& finding = response.findings(0);
  EXPECT_EQ(finding.where(),
            "cpu, sm_75, sm_80, sm_86, sm_89, sm_90 and 2 more targets: reference, BLOCK=32 and 1 "
            "more config");
  EXPECT_EQ(finding.targets_size(), 8);
  EXPECT_EQ(finding.variants(), 3u);
  EXPECT_EQ(finding.severity(), v1::CHECK_SEVERITY_ERROR);
  EXPECT_THAT(finding.message(), HasSubstr("'lost' was not declared"));
  EXPECT_THAT(finding.message(), HasSubstr("for sm_75: saxpy.cu(17): error: identifier"))
      << "the other compiler's words, once";
  EXPECT_EQ(findings.errors(), 24u);
}

TEST(CheckFindings, DifferentMistakesStayApart) {
  CheckFindings findings;
  findings.AddCompile("sm_80", "BLOCK=32", "k.cu(3): error: one\n");
  findings.AddCompile("sm_80", "BLOCK=64", "k.cu(4): error: two\n");
  findings.AddCompile("sm_80", "BLOCK=96", "compile_timeout: after 60 s");
  findings.AddCompile("sm_90", "BLOCK=96", "compile_timeout: after 60 s");
  EXPECT_EQ(Written(findings).findings_size(), 3);
}

TEST(CheckFindings, ATargetsNameInTheMessageIsNoDifference) {
  CheckFindings findings;
  for (const char* target : {"sm_75", "sm_80"}) {
    findings.AddCompile(target, "", std::string("kernel 'k', n=4, ") + target + ": no config");
  }
  const v1::CheckKernelResponse response = Written(findings);
  ASSERT_EQ(response.findings_size(), 1);
  EXPECT_EQ(response.findings(0).where(), "sm_75, sm_80");
  EXPECT_EQ(response.findings(0).message(), "kernel 'k', n=4: no config");
}

TEST(CheckFindings, APlaceIsSplitFromItsMessage) {
  CheckFindings findings;
  findings.AddAt("", "k.cu:7: the source redefines B", v1::CHECK_SEVERITY_WARNING);
  findings.AddAt("", "k.cu:7: the source redefines B", v1::CHECK_SEVERITY_WARNING);
  findings.AddAt("", "no place: at all");
  findings.AddAt("k.textproto:3:1", "unknown field");
  const v1::CheckKernelResponse response = Written(findings);
  ASSERT_EQ(response.findings_size(), 3);
  EXPECT_EQ(response.findings(0).where(), "k.cu:7");
  EXPECT_EQ(response.findings(0).message(), "the source redefines B");
  EXPECT_EQ(response.findings(1).where(), "");
  EXPECT_EQ(response.findings(2).where(), "k.textproto:3:1");
  EXPECT_EQ(findings.errors(), 2u) << "warnings are none";
}

TEST(CheckFindings, AreLimited) {
  CheckFindings findings;
  for (int i = 0; i < 5000; ++i) {
    findings.AddCompile("cpu", "B=1", "k.cu:" + std::to_string(i + 1) + ":1: error: x");
  }
  EXPECT_EQ(Written(findings).findings_size(), 100);
  EXPECT_EQ(findings.errors(), 5000u);
}

}  // namespace
}  // namespace tune::server
