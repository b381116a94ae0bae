// SPDX-License-Identifier: Apache-2.0
// Kernels of a folder, of a file and of a commit; the commit's come from git's objects.
#include "client/cli/kernel_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KernelSetTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    folder_ = fs::path(testing::TempDir()) /
              absl::StrCat("kernel-set-", getpid(), "-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  void WriteKernel(const std::string& name, const std::string& source) {
    Write(absl::StrCat("kernels/", name, "/", name, ".textproto"),
          absl::StrCat("name: \"", name, "\" source: \"", name, ".cu\" headers: \"", name, ".h\""));
    Write(absl::StrCat("kernels/", name, "/", name, ".cu"), source);
    Write(absl::StrCat("kernels/", name, "/", name, ".h"), "// header\n");
  }
  // Whatever the host's configuration says.
  void Git(const std::string& arguments) {
    const std::string command = absl::StrCat(
        "GIT_CONFIG_GLOBAL=/dev/null git -c user.name=a -c user.email=a@b -c commit.gpgsign=false ",
        arguments, " > /dev/null 2>&1");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  fs::path before_;
  fs::path folder_;
};

TEST_F(KernelSetTest, AFolderItselfOrTheOneAboveIt) {
  WriteKernel("softmax", "one");
  WriteKernel("rope", "two");
  for (const char* where : {".", "kernels"}) {
    const auto set = ReadKernelSet(where, "kernels");
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->label, where);
    ASSERT_EQ(set->kernels.size(), 2);
    EXPECT_EQ(set->kernels.at("softmax").files().at("softmax.cu"), "one");
    EXPECT_EQ(set->kernels.at("softmax").files().size(), 2);
  }
  const auto one = ReadKernelSet("kernels/rope/rope.textproto", "kernels");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->kernels.size(), 1);
}

TEST_F(KernelSetTest, ACommitIsReadWithoutTheWorkingTree) {
  WriteKernel("softmax", "committed");
  Git("init -q");
  Git("add -A");
  Git("commit -q -m first");
  WriteKernel("softmax", "changed since");
  const auto set = ReadKernelSet("HEAD", "kernels");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->label.size(), 40);
  EXPECT_EQ(set->kernels.at("softmax").files().at("softmax.cu"), "committed");
  EXPECT_EQ(set->kernels.at("softmax").files().at("softmax.h"), "// header\n");
  // From a folder below the top as well.
  fs::current_path(folder_ / "kernels/softmax");
  EXPECT_TRUE(ReadKernelSet("HEAD", "kernels").ok());
  EXPECT_THAT(std::string(ReadKernelSet("HEAD", "nowhere").status().message()),
              HasSubstr("has no kernels"));
}

TEST_F(KernelSetTest, ACommitHasItsOwnSharedHeaders) {
  WriteKernel("softmax", "one");
  Write("kernels/softmax/softmax.textproto",
        "name: \"softmax\" source: \"softmax.cu\" headers: \"<kernels/cluster.cuh>\"");
  Write("kernels/include/cluster.cuh", "committed");
  Git("init -q");
  Git("add -A");
  Git("commit -q -m first");
  Write("kernels/include/cluster.cuh", "changed since");
  const auto header = [](const char* where, const char* folder) {
    const auto set = ReadKernelSet(where, folder);
    return set.ok() ? set->kernels.at("softmax").files().at("cluster.cuh")
                    : set.status().ToString();
  };
  EXPECT_EQ(header("HEAD", "kernels"), "committed");
  EXPECT_EQ(header(".", "kernels"), "changed since");
  fs::rename("kernels/include", "include");
  EXPECT_THAT(header(".", "kernels"), HasSubstr("mbarrier")) << "the one that ships";
  Git("add -A");
  Git("commit -q -m second");
  EXPECT_THAT(header("HEAD", "kernels"), HasSubstr("mbarrier"));
}

TEST_F(KernelSetTest, TextprotosOfOtherMessagesAreLeftOut) {
  WriteKernel("softmax", "one");
  Write("kernels/fusions.textproto",
        "# A licence\n\n# proto-message: tune.v1.FusionTable\nname: \"f\" source: \"of sizes\"");
  Write("kernels/softmax/model.textproto", "name: \"m\" platform: \"onnx\" input { dims: 3 }");
  Git("init -q");
  Git("add -A");
  Git("commit -q -m first");
  for (const char* where : {".", "kernels", "HEAD"}) {
    const auto set = ReadKernelSet(where, "kernels");
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(set->kernels.size(), 1);
  }
  fs::remove_all(folder_ / "kernels/softmax");
  EXPECT_THAT(std::string(ReadKernelSet(".", "kernels").status().message()),
              HasSubstr("has no kernels"));
  Write("kernels/deep/deep.textproto", [] {
    std::string deep;
    for (int i = 0; i < 200'000; ++i) deep += "a {";
    return deep + std::string(200'000, '}');
  }());
  EXPECT_FALSE(ReadKernelSet(".", "kernels").ok()) << "and ends";
  fs::remove_all(folder_ / "kernels/deep");
  // A spec with a misspelt field is still a spec, and so is one that a user names.
  Write("kernels/rope/rope.textproto", "name: \"rope\" source: \"rope.cu\" argz { name: \"x\" }");
  for (const char* where : {".", "kernels/fusions.textproto"}) {
    EXPECT_THAT(std::string(ReadKernelSet(where, "kernels").status().message()),
                HasSubstr("is no kernel spec"));
  }
}

TEST_F(KernelSetTest, WhatCannotBeReadSaysWhy) {
  const auto why = [](const std::string& where) {
    const auto set = ReadKernelSet(where, "kernels");
    EXPECT_TRUE(absl::IsInvalidArgument(set.status())) << where;
    return std::string(set.status().message());
  };
  EXPECT_EQ(
      why("x.cu"),
      "'x.cu' is no folder and no .textproto file, and no git revision is read: this folder is "
      "in no git repository");
  Git("init -q");
  EXPECT_THAT(why("nosuch"), HasSubstr("no revision that git knows"));
  EXPECT_THAT(why("--output=/tmp/x"), HasSubstr("no revision"));
  EXPECT_THAT(why("."), HasSubstr("has no kernels"));
  EXPECT_THAT(why("gone.textproto"), HasSubstr("gone.textproto"));
  Write("kernels/bad/bad.textproto", "nonsense {");
  EXPECT_THAT(why("."), HasSubstr("kernel check"));
  fs::remove_all(folder_ / "kernels");
  WriteKernel("softmax", "x");
  Write("kernels/copy/copy.textproto", "name: \"softmax\" source: \"\"");
  EXPECT_THAT(why("."), HasSubstr("two kernels named 'softmax'"));
}

}  // namespace
}  // namespace tune::client
