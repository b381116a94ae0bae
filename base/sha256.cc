// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

// The functions that OpenSSL would have us call instead read its configuration file and set up all
// of its algorithms, in a process that is another's if libtune asks.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace tune {

std::string Sha256(absl::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
  return digest;
}

std::string Sha256Hex(absl::string_view bytes) { return absl::BytesToHexString(Sha256(bytes)); }

}  // namespace tune
