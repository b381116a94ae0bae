// SPDX-License-Identifier: Apache-2.0
// Answers to questions about the space of a kernel or of an imported definition.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/kernels/catalogue.h"
#include "tune/v1/catalogue.pb.h"
#include "tuner/space/space.h"

namespace tune::server {

// `targets` are those of this host's devices, the preferred first, for requests that name none.
// ABORTED if the effort does not suffice; the response is then empty.
absl::Status DescribeSpace(const v1::DescribeSpaceRequest& request, const Catalogue& catalogue,
                           const std::vector<std::string>& targets,
                           v1::DescribeSpaceResponse& response, const SpaceEffort& effort = {});
absl::Status SampleSpace(const v1::SampleSpaceRequest& request, const Catalogue& catalogue,
                         const std::vector<std::string>& targets, v1::SampleSpaceResponse& response,
                         const SpaceEffort& effort = {});

}  // namespace tune::server
