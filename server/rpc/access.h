// SPDX-License-Identifier: Apache-2.0
// What each call needs of the connection that it comes by.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/security/auth_metadata_processor.h"

namespace tune::server {

enum class Needs {
  kReading,  // look-ups, lists, reports: for whoever reaches the daemon
  kTrust,    // brings kernels, starts or ends work, or keeps the host busy: for known clients
};

// Of "/tune.v1.SweepService/SubmitSweep". Nothing for a call that has no line in the table; it is
// then refused to whoever is not known.
std::optional<Needs> NeedsOf(absl::string_view path);

// For a listener whose clients are not known: every call but those for reading ends with
// PERMISSION_DENIED before its request is looked at.
std::shared_ptr<grpc::AuthMetadataProcessor> ReadersOnly();

}  // namespace tune::server
