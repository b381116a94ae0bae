// SPDX-License-Identifier: Apache-2.0
// Kernels of a folder that somebody else has filled.
#include "client/cli/kernel_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/contained_file.h"
#include "client/cli/kernel_set.h"
#include "gmock/gmock.h"
#include "kernels/shared_headers.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KernelFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::path(testing::TempDir()) /
           absl::StrCat("kernel-files-", getpid(), "-",
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(top_);
    fs::create_directories(top_ / "k");
    Write("secret", "outside\n");
    Write("k/k.textproto", "name: \"k\" source: \"k.cu\"");
  }
  void TearDown() override { fs::remove_all(top_); }
  void Write(const std::string& path, const std::string& text) {
    std::ofstream(top_ / path) << text;
  }
  absl::StatusOr<KernelFiles> Read() { return ReadKernelFiles((top_ / "k/k.textproto").string()); }
  std::string Why() {
    const absl::Status status = Read().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  fs::path top_;
};

TEST_F(KernelFilesTest, LinksThatStayInTheFolderAreFollowed) {
  fs::create_directories(top_ / "k/inner");
  Write("k/inner/real.cu", "inside\n");
  fs::create_symlink("inner/real.cu", top_ / "k/hop");
  fs::create_symlink("hop", top_ / "k/k.cu");
  const auto files = Read();
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->source.files().at("k.cu"), "inside\n");
}

TEST_F(KernelFilesTest, LinksOutOfTheFolderAreRefused) {
  fs::create_directory_symlink("..", top_ / "k/up");
  for (const std::string target : {std::string("../secret"), (top_ / "secret").string(),
                                   std::string("up/secret"), std::string("/proc/self/environ")}) {
    fs::remove(top_ / "k/k.cu");
    fs::create_symlink(target, top_ / "k/k.cu");
    EXPECT_THAT(Why(), HasSubstr("leads out of its folder")) << target;
  }
  fs::remove(top_ / "k/k.textproto");
  fs::create_symlink("../secret", top_ / "k/k.textproto");
  EXPECT_THAT(Why(), HasSubstr("leads out of its folder")) << "the spec itself";
}

TEST_F(KernelFilesTest, WhatIsNoFileIsNotOpened) {
  ASSERT_EQ(mkfifo((top_ / "k/k.cu").c_str(), 0600), 0);
  EXPECT_THAT(Why(), HasSubstr("is a FIFO"));
  fs::remove(top_ / "k/k.cu");
  fs::create_directory(top_ / "k/k.cu");
  EXPECT_THAT(Why(), HasSubstr("is a folder"));
  fs::remove(top_ / "k/k.cu");
  EXPECT_THAT(Why(), HasSubstr("No such file"));
  if (mknod((top_ / "k/k.cu").c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0) {
    EXPECT_THAT(Why(), HasSubstr("is a device"));
    fs::remove(top_ / "k/k.cu");
  }
  fs::create_symlink("k.cu", top_ / "k/k.cu");
  EXPECT_THAT(Why(), HasSubstr("symbolic links"));
}

TEST_F(KernelFilesTest, LargeFilesAndManyFilesAreRefused) {
  Write("k/k.cu", "");
  fs::resize_file(top_ / "k/k.cu", uintmax_t{1} << 40);  // with nothing in it
  EXPECT_THAT(Why(), HasSubstr("at most 1 MiB"));
  fs::resize_file(top_ / "k/k.cu", 0);
  std::string spec = "name: \"k\" source: \"k.cu\"";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&spec, " headers: \"", i, ".cuh\"");
  Write("k/k.textproto", spec);
  EXPECT_THAT(Why(), HasSubstr("names 301 files"));
}

TEST_F(KernelFilesTest, SharedHeadersAreSentUnderTheirOwnNames) {
  Write("k/k.cu", "#include \"rows.cuh\"\n");
  Write("k/k.textproto",
        "name: \"k\" source: \"k.cu\" headers: [\"own.cuh\", \"<kernels/rows.cuh>\"]");
  Write("k/own.cuh", "own\n");
  const auto files = Read();
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->source.spec_text(),
            "name: \"k\" source: \"k.cu\" "
            "headers: [\"own.cuh\", \"async_copy.cuh\", \"sm90.cuh\", \"cluster.cuh\", "
            "\"fast_math.cuh\", \"element.cuh\", \"rows.cuh\"]");
  EXPECT_THAT(files->spec.headers(),
              testing::ElementsAre("own.cuh", "async_copy.cuh", "sm90.cuh", "cluster.cuh",
                                   "fast_math.cuh", "element.cuh", "rows.cuh"));
  EXPECT_EQ(files->source.files().size(), 8u);
  EXPECT_EQ(files->source.files().at("own.cuh"), "own\n");
  for (const char* name : {"cluster.cuh", "element.cuh", "rows.cuh"}) {
    EXPECT_EQ(files->source.files().at(name), SharedHeaders().at(name)) << name;
  }
}

TEST_F(KernelFilesTest, AKernelInAFolderKernelsHasTheHeadersBesideIt) {
  fs::create_directories(top_ / "kernels/include");
  fs::rename(top_ / "k", top_ / "kernels/k");
  Write("kernels/k/k.cu", "");
  Write("kernels/k/k.textproto", "name: \"k\" source: \"k.cu\" headers: \"<kernels/rows.cuh>\"");
  Write("kernels/include/rows.cuh", "#include \"sigmoid.cuh\"\n");
  const fs::path before = fs::current_path();
  fs::current_path(top_ / "kernels/k");
  for (const std::string& path : {(top_ / "kernels/k/k.textproto").string(),
                                  std::string("k.textproto"), std::string("../k/k.textproto")}) {
    const auto files = ReadKernelFiles(path);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(files->source.files().at("rows.cuh"), "#include \"sigmoid.cuh\"\n") << path;
    EXPECT_EQ(files->source.files().at("sigmoid.cuh"), SharedHeaders().at("sigmoid.cuh"));
    EXPECT_EQ(files->source.files().count("element.cuh"), 0u);
  }
  fs::current_path(before);
  fs::remove(top_ / "kernels/include/rows.cuh");
  fs::create_symlink("../../secret", top_ / "kernels/include/rows.cuh");
  const auto out = ReadKernelFiles((top_ / "kernels/k/k.textproto").string());
  EXPECT_THAT(std::string(out.status().message()), HasSubstr("leads out of its folder"));
}

TEST_F(KernelFilesTest, UnknownSharedHeadersAndClashesAreRefused) {
  Write("k/k.cu", "");
  Write("k/k.textproto", "name: \"k\" source: \"k.cu\"\nheaders: \"<kernels/row.cuh>\"");
  EXPECT_THAT(Why(), HasSubstr("k.textproto:2:10: headers: no shared header '<kernels/row.cuh>'"));
  EXPECT_THAT(Why(), HasSubstr("<kernels/element.cuh>, "));
  EXPECT_THAT(Why(), HasSubstr("; did you mean '<kernels/rows.cuh>'?"));
  Write("k/k.textproto", "name: \"k\" source: \"k.cu\" headers: \"<kernels/rows.cuh>\"");
  Write("k/element.cuh", "mine\n");  // which rows.cuh includes
  EXPECT_THAT(Why(), HasSubstr("k/element.cuh' has the name of the shared header "
                               "<kernels/element.cuh>"));
}

TEST_F(KernelFilesTest, TheFolderOfAGateDoesNotLeadOut) {
  Write("k/k.cu", "text");
  fs::create_directories(top_ / "clone");
  fs::create_directory_symlink("..", top_ / "clone/kernels");
  const auto out = ReadKernelSet((top_ / "clone").string(), "kernels");
  EXPECT_TRUE(absl::IsInvalidArgument(out.status()));
  EXPECT_THAT(std::string(out.status().message()), HasSubstr("leads out"));
  EXPECT_THAT(std::string(ReadKernelSet((top_ / "clone").string(), "..").status().message()),
              HasSubstr("leads out"));
  fs::remove(top_ / "clone/kernels");
  fs::create_directory(top_ / "clone/inner");
  fs::rename(top_ / "k", top_ / "clone/inner/k");
  fs::create_directory_symlink("inner", top_ / "clone/kernels");
  const auto in = ReadKernelSet((top_ / "clone").string(), "kernels");
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(in->kernels.size(), 1u);
}

}  // namespace
}  // namespace tune::client
