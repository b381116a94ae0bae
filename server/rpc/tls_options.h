// SPDX-License-Identifier: Apache-2.0
// The files of a TCP listener.
#pragma once

#include <string>

namespace tune::server {

struct TlsOptions {
  std::string certificate_file;
  std::string key_file;
  // The authority that must have signed clients' certificates; empty: clients are asked for none.
  std::string client_authority_file;
};

}  // namespace tune::server
