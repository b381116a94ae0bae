// SPDX-License-Identifier: Apache-2.0
// The files of a TCP listener.
#pragma once

#include <string>

namespace tune::server {

struct TlsOptions {
  std::string certificate_file;
  std::string key_file;
  // Clients' certificates are those that it has signed; empty: clients are asked for none.
  std::string client_authority_file;
};

}  // namespace tune::server
