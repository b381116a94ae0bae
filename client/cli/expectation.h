// SPDX-License-Identifier: Apache-2.0
// What an answer is expected to lose, and what it launches, as text.
#pragma once

#include <string>
#include <vector>

#include "tune/v1/record.pb.h"

namespace tune::client {

// The reason of an answer, which begins with the match unless that is a default's: "default: no
// record of softmax".
std::string ReasonText(const v1::LookupResponse& answer);

// "loses 1.2 % of the best there would be; nine of ten times 0.0 to 6.1 %; by 5 tuned shapes".
std::string ToText(const v1::Expectation& expectation);

// A line for each tuned shape that speaks for the config: "seq=4096 heads=16  weight 62 %  loses
// 0.3 % there".
std::vector<std::string> NeighbourLines(const v1::Expectation& expectation);

// "grid 128x1x1, block 256x1x1, 4096 B shared", a line for each launch.
std::vector<std::string> LaunchLines(const v1::LookupResponse& answer);

}  // namespace tune::client
