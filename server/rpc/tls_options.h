// SPDX-License-Identifier: Apache-2.0
// The files of a TCP listener.
#pragma once

#include <string>

namespace tune::server {

struct TlsOptions {
  std::string certificate_file;
  std::string key_file;
  // Clients must show a certificate that this authority has signed; empty: any client.
  std::string client_authority_file;
};

}  // namespace tune::server
