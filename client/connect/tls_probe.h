// SPDX-License-Identifier: Apache-2.0
// Finds out why a TLS connection fails. gRPC says little more than that it failed; this tries the
// handshake once more, by itself, and says why.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace tune::client {

// In PEM; empty: not given.
struct TlsTexts {
  std::string ca;
  std::string certificate;
  std::string key;
};

// INVALID_ARGUMENT names the flag and the variable: a text is none in PEM, the key is without its
// certificate or the certificate without its key, or they are no pair.
absl::Status CheckTls(const TlsTexts& texts);

// Why a TLS connection to "host:port" fails. UNAVAILABLE: no process accepts it. UNAUTHENTICATED:
// one side rejects the other's certificate, or the process there does not speak TLS. Looking up the
// host's name has no limit of time; the rest waits no longer than `timeout`.
absl::Status ProbeTls(const std::string& address, const TlsTexts& texts,
                      std::chrono::milliseconds timeout);

}  // namespace tune::client
