// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/certificate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "server/rpc/pem.h"
#include "tests/server/access/authority.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class CertificateFilesTest : public testing::Test {
 protected:
  CertificateFilesTest() : authority_(dir_.path()), pair_(authority_.Sign("daemon")) {}
  std::unique_ptr<CertificateFiles> Open() const {
    return CertificateFiles::Open({.certificate_file = pair_.certificate, .key_file = pair_.key})
        .value();
  }
  // After the files were looked at.
  static std::string Problem(CertificateFiles& files) {
    files.LookAgain();
    return files.state().problem;
  }
  // Has the certificate begin and end at other times.
  void SignAnew(const char* begin, const char* end) const {
    const Certificate certificate = ParseCertificate(TextOf(pair_.certificate));
    ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notBefore(certificate.get()), begin), 1);
    ASSERT_EQ(ASN1_TIME_set_string(X509_getm_notAfter(certificate.get()), end), 1);
    ASSERT_GT(X509_sign(certificate.get(), ParseKey(TextOf(pair_.key)).get(), EVP_sha256()), 0);
    std::FILE* const file = std::fopen(pair_.certificate.c_str(), "w");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(PEM_write_X509(file, certificate.get()), 1);
    std::fclose(file);
  }

  const TempDir dir_;
  const Authority authority_;
  const KeyPair pair_;
};

// Each hinders a look, and what hinders it passes while the files stay as they are.
TEST_F(CertificateFilesTest, AProblemThatPassesIsForgotten) {
  const std::string aside = dir_.path() + "/aside";
  struct Case {
    const char* problem;
    std::function<void()> begin;
    std::function<void()> end;
  };
  const Case cases[] = {
      {"cannot read", [&] { std::filesystem::rename(pair_.certificate, aside); },
       [&] { std::filesystem::rename(aside, pair_.certificate); }},
      {"cannot read",
       [&] {
         std::filesystem::rename(pair_.key, aside);
         std::filesystem::create_directory(pair_.key);
       },
       [&] {
         std::filesystem::remove(pair_.key);
         std::filesystem::rename(aside, pair_.key);
       }},
      {"chmod 600", [&] { chmod(pair_.key.c_str(), 0644); },
       [&] { chmod(pair_.key.c_str(), 0600); }},
  };
  const std::unique_ptr<CertificateFiles> files = Open();
  const uint64_t served = files->Served().first;
  for (const auto& [problem, begin, end] : cases) {
    SCOPED_TRACE(problem);
    begin();
    EXPECT_NE(Problem(*files), "");
    end();
    EXPECT_EQ(Problem(*files), "");
    EXPECT_EQ(files->Served().first, served);
  }
}

TEST_F(CertificateFilesTest, ARenewedPairIsServedOnceItCanBeRead) {
  const std::unique_ptr<CertificateFiles> files = Open();
  const int64_t before = files->state().expires_unix_ms;
  const KeyPair renewed = authority_.Sign("renewed", 30);
  chmod(renewed.key.c_str(), 0644);
  std::filesystem::rename(renewed.certificate, pair_.certificate);
  std::filesystem::rename(renewed.key, pair_.key);
  EXPECT_THAT(Problem(*files), HasSubstr("chmod 600"));
  EXPECT_EQ(files->state().expires_unix_ms, before);
  chmod(pair_.key.c_str(), 0600);
  EXPECT_EQ(Problem(*files), "");
  EXPECT_GT(files->state().expires_unix_ms, before);
}

TEST_F(CertificateFilesTest, TheHourIsSaidFromWhichACertificateIsValid) {
  const std::unique_ptr<CertificateFiles> files = Open();
  SignAnew("20991231173000Z", "21001231173000Z");
  EXPECT_THAT(Problem(*files), HasSubstr(" is not valid before 2099-12-31 17:30 UTC"));
  SignAnew("20200101000000Z", "20200102083000Z");
  EXPECT_THAT(Problem(*files), HasSubstr(" ended on 2020-01-02 08:30 UTC"));
}

TEST_F(CertificateFilesTest, AKeyThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0644, 0640, 0604, 0660}) {
    chmod(pair_.key.c_str(), mode);
    const absl::Status refused =
        CertificateFiles::Open({.certificate_file = pair_.certificate, .key_file = pair_.key})
            .status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << std::oct << mode << " " << refused;
    EXPECT_THAT(refused.message(), HasSubstr(pair_.key));
  }
}

TEST_F(CertificateFilesTest, FilesMayBeSymbolicLinks) {
  const auto link = [&](const std::string& file) {
    std::filesystem::create_symlink(file, file + ".link");
    return file + ".link";
  };
  const TlsOptions linked{.certificate_file = link(pair_.certificate),
                          .key_file = link(pair_.key),
                          .client_authority_file = link(authority_.file())};
  const absl::StatusOr<std::unique_ptr<CertificateFiles>> files = CertificateFiles::Open(linked);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)->Served().second.certificate, TextOf(pair_.certificate));
}

TEST_F(CertificateFilesTest, AFileThatCannotBeReadIsNamedWithTheReason) {
  TlsOptions options{.certificate_file = dir_.path() + "/none.pem", .key_file = pair_.key};
  EXPECT_THAT(CertificateFiles::Open(options).status().message(),
              HasSubstr("none.pem': No such file or directory"));
  options.certificate_file = dir_.path() + "/fifo";
  ASSERT_EQ(mkfifo(options.certificate_file.c_str(), 0600), 0);
  EXPECT_THAT(CertificateFiles::Open(options).status().message(), HasSubstr("fifo' is no file"));
}

TEST_F(CertificateFilesTest, AnAuthorityThatWasReplacedVouchesNoMore) {
  const KeyPair client = authority_.Sign("client");
  const TempDir elsewhere;
  const Authority other(elsewhere.path());
  const std::unique_ptr<CertificateFiles> files =
      CertificateFiles::Open({.certificate_file = pair_.certificate,
                              .key_file = pair_.key,
                              .client_authority_file = authority_.file()})
          .value();
  const std::string leaf = TextOf(client.certificate);
  EXPECT_TRUE(files->clients().Check(leaf, "").ok()) << files->clients().Check(leaf, "");
  EXPECT_TRUE(files->clients().Check(leaf, "").ok()) << "what is remembered is the same";
  std::filesystem::rename(other.file(), authority_.file());
  EXPECT_EQ(Problem(*files), "");
  EXPECT_TRUE(absl::IsUnauthenticated(files->clients().Check(leaf, "")));
}

}  // namespace
}  // namespace tune::server
