// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared_headers.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tune {
namespace {

using testing::HasSubstr;
using testing::Key;
using testing::UnorderedElementsAre;

absl::StatusOr<std::string> ReadShipped(const std::string& name) {
  return std::string(SharedHeaders().at(name));
}

std::string Resolved(const std::string& text) {
  const auto resolved = ResolveSharedHeaders("k.textproto", text, ReadShipped);
  return resolved.ok() ? resolved->text : std::string(resolved.status().message());
}

TEST(SharedHeadersTest, IncludedHeadersComeFirst) {
  const auto resolved =
      ResolveSharedHeaders("k.textproto", R"(headers: "<kernels/summed.cuh>")", ReadShipped);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->text,
            R"(headers: ["async_copy.cuh", "sm90.cuh", "cluster.cuh", "fast_math.cuh", )"
            R"("element.cuh", "rows.cuh", "summed.cuh"])");
  EXPECT_THAT(resolved->headers,
              UnorderedElementsAre(Key("async_copy.cuh"), Key("sm90.cuh"), Key("cluster.cuh"),
                                   Key("fast_math.cuh"), Key("element.cuh"), Key("rows.cuh"),
                                   Key("summed.cuh")));
  for (const auto& [name, text] : resolved->headers) EXPECT_EQ(text, SharedHeaders().at(name));
}

TEST(SharedHeadersTest, EachHeaderIsNamedOnce) {
  EXPECT_EQ(
      Resolved(R"(headers: ["a.h", "<kernels/flat.cuh>", '<kernels/adamw_step.cuh>', "b.h"])"),
      R"(headers: ["a.h", "fast_math.cuh", "element.cuh", "flat.cuh", "adamw_step.cuh", "b.h"])");
  EXPECT_EQ(Resolved(R"(headers: "<kernels/cluster.cuh>" headers: "<kernels/sm90.cuh>")"),
            R"(headers: "cluster.cuh" headers: ["async_copy.cuh", "sm90.cuh"])")
      << "in the place that the spec gives it";
}

TEST(SharedHeadersTest, TheRestOfTheTextStaysAsItIs) {
  for (const std::string& text : {
           std::string("# headers: \"<kernels/rows.cuh>\"\nname: 'k'\n"),
           std::string("summary: \"headers: '<kernels/rows.cuh>'\" headers: [\"rows.cuh\"]"),
           std::string("args { headers: \"<kernels/rows.cuh>\" }"),
           std::string("headers: \"<kernels/rows.cuh>"),
           std::string("headers: \"\\"),
           std::string("no spec <<< [[ '"),
           std::string(),
       }) {
    EXPECT_EQ(Resolved(text), text);
  }
  EXPECT_EQ(Resolved("lets { name: \"a\" } # '\nheaders: \"<kernels/overlap.cuh>\"  # why\n"),
            "lets { name: \"a\" } # '\nheaders: \"overlap.cuh\"  # why\n");
}

TEST(SharedHeadersTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  const std::string why = Resolved("name: \"k\"\n  headers: \"<kernels/row.cuh>\"");
  EXPECT_THAT(why, testing::StartsWith("k.textproto:2:12: headers: no shared header "
                                       "'<kernels/row.cuh>'; there is <kernels/adamw_step.cuh>, "));
  for (const auto& [name, text] : SharedHeaders()) {
    EXPECT_THAT(why, HasSubstr(absl::StrCat("<kernels/", name, ">")));
  }
  EXPECT_THAT(why, HasSubstr("; did you mean '<kernels/rows.cuh>'?"));
  EXPECT_THAT(Resolved("headers: \"<kernel/rows.cuh>\""), HasSubstr("mean '<kernels/rows.cuh>'?"));
  EXPECT_THAT(Resolved("headers: \"<cub/cub.cuh>\""), HasSubstr("no shared header"));
}

TEST(SharedHeadersTest, ASharedHeaderIncludesSharedHeadersAlone) {
  const auto read = [](const std::string&) -> absl::StatusOr<std::string> {
    return std::string("#pragma once\n # include \"mine.h\"\n#include <cassert>\n");
  };
  EXPECT_THAT(
      std::string(ResolveSharedHeaders("k.textproto", "headers: \"<kernels/rows.cuh>\"", read)
                      .status()
                      .message()),
      HasSubstr("'rows.cuh' includes \"mine.h\", which is none"));
  for (const auto& [name, text] : SharedHeaders()) {
    const std::string spec = absl::StrCat("headers: \"<kernels/", name, ">\"");
    EXPECT_TRUE(ResolveSharedHeaders("k.textproto", spec, ReadShipped).ok()) << name;
  }
}

TEST(SharedHeadersTest, HeadersThatIncludeEachOtherEnd) {
  const auto read = [](const std::string& name) -> absl::StatusOr<std::string> {
    return std::string(name == "rows.cuh" ? "#include \"flat.cuh\"" : "#include \"rows.cuh\"");
  };
  const auto resolved =
      ResolveSharedHeaders("k.textproto", "headers: \"<kernels/rows.cuh>\"", read);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->text, "headers: [\"flat.cuh\", \"rows.cuh\"]");
}

}  // namespace
}  // namespace tune
