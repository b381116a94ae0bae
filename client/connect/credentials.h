// SPDX-License-Identifier: Apache-2.0
// The credentials of a client for a daemon that it reaches by TCP, and what it verifies.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/connect/tls_probe.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

// Files. For each that is not given: $TUNE_TLS_CA, $TUNE_TLS_CERT, $TUNE_TLS_KEY, $TUNE_TOKEN_FILE.
struct TlsFiles {
  std::string ca;           // verifies the daemon; empty: the system's authorities
  std::string certificate;  // ours
  std::string key;
  // A file with a token. Without it $TUNE_TOKEN itself, else, if no certificate is given, the file
  // tunectl/token in $XDG_CONFIG_HOME or ~/.config, if it exists.
  std::string token_file;
};

struct Credentials {
  TlsTexts texts;
  std::shared_ptr<grpc::ChannelCredentials> channel;
};

// INVALID_ARGUMENT: a file cannot be read, or is not what it should be. PERMISSION_DENIED: others
// may read the key or the token.
absl::StatusOr<Credentials> CredentialsOf(const TlsFiles& tls);

}  // namespace tune::client
