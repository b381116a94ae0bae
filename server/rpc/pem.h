// SPDX-License-Identifier: Apache-2.0
// Certificates and keys as PEM.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tune::server {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// Null if it does not parse. A key with a password does not.
Certificate ParseCertificate(const std::string& pem);
Key ParseKey(const std::string& pem);
// The certificates of a bundle, up to the first that does not parse.
std::vector<Certificate> ParseCertificates(const std::string& pem);

// The time from which and until which a certificate is valid; the infinite past if it has none.
absl::Time BeginOf(const X509& certificate);
absl::Time EndOf(const X509& certificate);

}  // namespace tune::server
