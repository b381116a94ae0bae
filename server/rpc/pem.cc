// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

namespace tune::server {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

int NoPassword(char*, int, int, void*) { return 0; }

Certificate ReadCertificate(BIO* bio) {
  return Certificate(PEM_read_bio_X509(bio, nullptr, NoPassword, nullptr), X509_free);
}

absl::Time ToTime(const ASN1_TIME* time) {
  tm fields = {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

}  // namespace

Certificate ParseCertificate(const std::string& pem) { return ReadCertificate(Open(pem).get()); }

Key ParseKey(const std::string& pem) {
  return Key(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, NoPassword, nullptr), EVP_PKEY_free);
}

std::vector<Certificate> ParseCertificates(const std::string& pem) {
  std::vector<Certificate> certificates;
  const Bio bio = Open(pem);
  ERR_set_mark();  // the end of the text is an error to OpenSSL
  while (Certificate one = ReadCertificate(bio.get())) certificates.push_back(std::move(one));
  ERR_pop_to_mark();
  return certificates;
}

absl::Time BeginOf(const X509& certificate) { return ToTime(X509_get0_notBefore(&certificate)); }
absl::Time EndOf(const X509& certificate) { return ToTime(X509_get0_notAfter(&certificate)); }

}  // namespace tune::server
