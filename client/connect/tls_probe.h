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

// Why no TLS connection to "host:port" comes about. UNAVAILABLE: nobody takes a connection.
// UNAUTHENTICATED: one side does not take the other's certificate, or what listens there speaks no
// TLS. A host's name is looked up for as long as that takes, the rest waits no longer than
// `timeout`.
absl::Status ProbeTls(const std::string& address, const TlsTexts& texts,
                      std::chrono::milliseconds timeout);

}  // namespace tune::client
