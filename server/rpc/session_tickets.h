// SPDX-License-Identifier: Apache-2.0
// Switches off TLS session tickets, which gRPC's servers send and its clients do not use. OpenSSL
// makes two for each connection, with the client's certificate in them, which is a fifth of the
// daemon's time for a handshake.
#pragma once

#include "absl/status/status.h"

namespace tune::server {

// Makes this process send no tickets. The rest of the host's OpenSSL configuration stands. gRPC has
// no option for it. REQUIRES: no TLS listener yet.
absl::Status SendNoSessionTickets();

}  // namespace tune::server
