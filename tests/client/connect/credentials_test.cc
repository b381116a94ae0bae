// SPDX-License-Identifier: Apache-2.0
#include "client/connect/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/secret_file.h"
#include "tests/server/temp_dir.h"

namespace tune::client {
namespace {

using testing::HasSubstr;

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { setenv("XDG_CONFIG_HOME", dir_.path().c_str(), 1); }
  ~CredentialsTest() override {
    for (const char* name : {"XDG_CONFIG_HOME", "TUNE_TOKEN", "TUNE_TOKEN_FILE"}) unsetenv(name);
  }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  static std::string ErrorOf(const TlsFiles& tls) {
    return std::string(CredentialsOf(tls).status().message());
  }

  server::TempDir dir_;
};

TEST_F(CredentialsTest, ASecretIsReadIfItIsPrivate) {
  EXPECT_EQ(ReadSecret(Write("token", "tune_1\n")).value(), "tune_1\n");
  const absl::Status status = ReadSecret(Write("open", "tune_1", 0604)).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600"));
  EXPECT_EQ(ModeLets(0100601, 077), "mode 0601 lets others execute it");
  EXPECT_EQ(ModeLets(0640, 077), "mode 0640 lets its group read it");
  EXPECT_EQ(ModeLets(0666, 077), "mode 0666 lets its group and others read and write it");
  if (geteuid() != 0) {
    EXPECT_FALSE(ReadSecret(Write("group", "tune_1", 0640)).ok());
    return;
  }
  EXPECT_TRUE(ReadSecret(Write("group", "tune_1", 0640)).ok()) << "root gave it to the group";
  const std::string others = Write("others", "tune_1");
  ASSERT_EQ(chown(others.c_str(), 12345, 12345), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(ReadSecret(others).status()));
}

TEST_F(CredentialsTest, WhatIsNoSecretIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecret(dir_.path() + "/none").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecret(dir_.path()).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(ReadSecret(Write("long", std::string(1 << 20, 'x'))).status()));
  const std::string fifo = dir_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecret(fifo).status())) << "and nobody waits for it";
}

TEST_F(CredentialsTest, TokensComeFromFlagsTheEnvironmentAndTheUsersOwnFile) {
  EXPECT_EQ(ErrorOf({}), "") << "none is fine";
  EXPECT_EQ(ErrorOf({.token_file = Write("token", "tune_1\n")}), "");
  EXPECT_THAT(ErrorOf({.token_file = Write("two", "a b")}), HasSubstr("is no token"));
  EXPECT_THAT(ErrorOf({.token_file = Write("empty", "\n")}), HasSubstr("is no token"));
  setenv("TUNE_TOKEN", "a\nb", 1);
  EXPECT_THAT(ErrorOf({}), HasSubstr("TUNE_TOKEN is no token"));
  setenv("TUNE_TOKEN_FILE", Write("open", "tune_1", 0644).c_str(), 1);
  EXPECT_THAT(ErrorOf({}), HasSubstr("chmod 600")) << "the file comes first";
  unsetenv("TUNE_TOKEN_FILE");
  unsetenv("TUNE_TOKEN");
  ASSERT_EQ(mkdir((dir_.path() + "/tunectl").c_str(), 0700), 0);
  Write("tunectl/token", "tune_1", 0644);
  EXPECT_THAT(ErrorOf({}), HasSubstr("chmod 600")) << "the user's own file";
}

TEST_F(CredentialsTest, FilesThatAreNoneInPemAndHalvesOfAPairAreNamed) {
  const std::string text = Write("text", "this is no certificate\n");
  EXPECT_THAT(ErrorOf({.ca = text}), HasSubstr("--tls-ca or TUNE_TLS_CA names a file without"));
  EXPECT_THAT(ErrorOf({.ca = Write("nothing", "")}), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf({.certificate = text}),
              HasSubstr("--tls-cert or TUNE_TLS_CERT is given without its key: --tls-key or"));
  EXPECT_THAT(ErrorOf({.key = text}),
              HasSubstr("--tls-key or TUNE_TLS_KEY is given without its certificate: --tls-cert"));
  EXPECT_THAT(ErrorOf({.certificate = text, .key = text}),
              HasSubstr("TUNE_TLS_CERT names a file without a certificate in PEM"));
}

}  // namespace
}  // namespace tune::client
