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

// `targets` are those of this host's devices, the preferred first: what a kernel is asked about
// when the request names none. Nothing is in the response if the effort does not do: ABORTED.
absl::Status DescribeSpace(const v1::DescribeSpaceRequest& request, const Catalogue& catalogue,
                           const std::vector<std::string>& targets,
                           v1::DescribeSpaceResponse& response, const SpaceEffort& effort = {});
absl::Status SampleSpace(const v1::SampleSpaceRequest& request, const Catalogue& catalogue,
                         const std::vector<std::string>& targets, v1::SampleSpaceResponse& response,
                         const SpaceEffort& effort = {});

}  // namespace tune::server
