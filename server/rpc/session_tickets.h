// SPDX-License-Identifier: Apache-2.0
// TLS session tickets, which gRPC's servers send and its clients do not use. OpenSSL makes two for
// each connection, with the client's certificate in them, which is a fifth of what the daemon
// spends on a handshake.
#pragma once

#include "absl/status/status.h"

namespace tune::server {

// From now on this process sends none. The rest of the host's OpenSSL configuration stands. gRPC
// has no option for it. REQUIRES: no TLS listener yet.
absl::Status SendNoSessionTickets();

}  // namespace tune::server
