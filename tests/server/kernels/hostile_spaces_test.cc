// SPDX-License-Identifier: Apache-2.0
// No definition that a client sends takes the daemon more memory than the solver may have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/kernels/allocation_limit.h"
#include "server/kernels/kernel_source.h"
#include "server/kernels/space_query.h"
#include "server/kernels/space_solver.h"
#include "tests/server/test_server.h"

namespace tune::server {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

// Of this process, in bytes: "VmRSS", "VmHWM".
int64_t Memory(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kib = 0;
    if (absl::StartsWith(line, what + ":") &&
        absl::SimpleAtoi(line.substr(what.size() + 1, line.size() - what.size() - 4), &kib)) {
      return kib << 10;
    }
  }
  return 0;
}

std::string Repeat(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

std::string Numbers(int count, int from = 0) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, i == 0 ? "" : ",", from + i);
  return all;
}

std::string List(int count, const std::function<std::string(int)>& item) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, i == 0 ? "" : ",", item(i));
  return all;
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }

std::string Definition(const std::string& params, const std::string& restrictions) {
  return absl::StrCat("{\"tune_params\":{", params, "},\"restrictions\":[", restrictions, "]}");
}

// So many params A0, A1, ... of so many values.
std::string Params(int count, int values) {
  return List(count, [&](int i) { return absl::StrCat("\"A", i, "\":[", Numbers(values), "]"); });
}

// Each takes more than a GiB, or minutes, if nothing counts it.
std::map<std::string, std::string> HostileDefinitions() {
  std::map<std::string, std::string> all;
  all["comparisons"] =
      Definition("\"A\":[0,1]", List(250, [](int) { return Quoted("A" + Repeat("<2", 1900)); }));
  all["sums"] = Definition(Params(16, 4), List(200, [](int i) {
                             std::string sum = "A0";
                             for (int j = 0; sum.size() < 4000; ++j) {
                               absl::StrAppend(&sum, "+A", j % 16, "*", 1 + (i * 17 + j) % 99991);
                             }
                             return Quoted(sum + "<9");
                           }));
  all["products"] = Definition(Params(40, 2), List(200, [](int i) {
                                 std::string product = "A0";
                                 for (int j = 0; product.size() < 4000; ++j) {
                                   absl::StrAppend(&product, "*(A", j % 40, "+", i + j, ")");
                                 }
                                 return Quoted(product + "<9");
                               }));
  all["values"] = Definition(
      absl::StrCat("\"A\":[", Numbers(60000), "],\"B\":[", Numbers(60000), "]"),
      List(300, [](int i) {
        return Quoted(absl::StrCat("A*", i + 2, "%", i + 3, "+B*", i + 5, "%7<", i + 100));
      }));
  all["one_param"] = Definition(absl::StrCat("\"A\":[", Numbers(60000), "]"), List(100, [](int i) {
                                  std::string any = "A<0";
                                  for (int j = 0; any.size() < 3900; ++j)
                                    absl::StrAppend(&any, " or A*", i * 7 + j, "<", j);
                                  return Quoted(any);
                                }));
  all["sets"] = Definition(Params(8, 100), List(200, [](int i) {
                             return Quoted(absl::StrCat("A", i % 8, " in [", Numbers(500, i * 1000),
                                                        "] or A", (i + 1) % 8, "<", i % 90));
                           }));
  all["conditionals"] = Definition(
      Params(12, 8), List(200, [](int i) {
        std::string text = "1";
        for (int j = 0; j < 60; ++j) {
          text = absl::StrCat(j * i, " if A", j % 12, "*", j, "<", i, " else (", text, ")");
        }
        return Quoted(text.substr(0, 4000).size() < text.size() ? "A0<1" : text);
      }));
  all["texts"] = Definition(
      List(12,
           [](int i) {
             return absl::StrCat(
                 "\"T", i, "\":[",
                 List(60,
                      [](int j) {
                        return Quoted(
                            Repeat(std::string(1, static_cast<char>('a' + j % 26)), 100 + j));
                      }),
                 "]");
           }),
      List(100, [](int i) {
        return Quoted(absl::StrCat("T", i % 12, "+T", (i + 1) % 12, "+T", (i + 5) % 12, "!='x'"));
      }));
  all["wide"] = Definition(
      Params(60, 60), List(59, [](int i) {
        return Quoted(absl::StrCat("A", i, "*31+A", (i * 7) % 60, "*17+A", (i * 13) % 60, "<1800"));
      }));
  all["free"] = Definition(Params(60, 2000), "");
  return all;
}

class HostileSpacesTest : public testing::TestWithParam<std::string> {
 protected:
  // Asks for everything that the response can have.
  absl::Status Describe(const std::string& definition) {
    v1::DescribeSpaceRequest request;
    request.mutable_space()->set_definition_json(definition);
    request.set_details(true);
    return solver_.Run(
        [&](const SpaceEffort& effort) {
          response_.Clear();
          return DescribeSpace(request, Catalogue(), {"cpu"}, response_, effort);
        },
        {});
  }
  absl::Status Sample(const std::string& definition) {
    v1::SampleSpaceRequest request;
    request.mutable_space()->set_definition_json(definition);
    request.set_count(10'000);
    return solver_.Run(
        [&](const SpaceEffort& effort) {
          sample_.Clear();
          return SampleSpace(request, Catalogue(), {"cpu"}, sample_, effort);
        },
        {});
  }

  SpaceSolver solver_{absl::Seconds(5)};
  v1::DescribeSpaceResponse response_;
  v1::SampleSpaceResponse sample_;
};

TEST_P(HostileSpacesTest, IsAnsweredOrRefusedWithinTheSolversMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has its own operator new, and memory of its own";
#endif
  const std::string definition = HostileDefinitions().at(GetParam());
  ASSERT_LE(definition.size(), size_t{1} << 20) << "a test of nothing";
  ReturnFreedMemory();
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const int64_t before = Memory("VmRSS");
  for (const absl::Status& status : {Describe(definition), Sample(definition)}) {
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status))
        << status;
    if (absl::IsResourceExhausted(status)) {
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("fewer")) << "what to do";
    }
  }
  EXPECT_LT(
      Memory("VmHWM") - before,
      static_cast<int64_t>(SpaceSolver::kLargeBytes + SpaceSolver::kSmallBytes) + 32 * kMebibyte);
  response_ = {};
  sample_ = {};
  ReturnFreedMemory();
  EXPECT_LT(Memory("VmRSS") - before, 24 * kMebibyte) << "it is given back";
}

INSTANTIATE_TEST_SUITE_P(Definitions, HostileSpacesTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, definition] : HostileDefinitions()) {
                             names.push_back(name);
                           }
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(HostileSourceTest, ASpecOfNothingButExpressionsIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has its own operator new";
#endif
  v1::KernelSource source = ScaleKernel();
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(source.mutable_spec_text(), "constraints { expression: \"THREADS",
                    Repeat("+1", 2000), " > ", i, "\" }\n");
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = Memory("VmRSS");
  const absl::Status status = ParseKernelSource(source).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("fewer and shorter expressions"));
  EXPECT_LT(Memory("VmHWM") - before, 64 * kMebibyte);
}

}  // namespace
}  // namespace tune::server
