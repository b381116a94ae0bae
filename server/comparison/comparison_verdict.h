// SPDX-License-Identifier: Apache-2.0
// A comparison in sentences: whether a kernel is faster than the first, and what makes figures
// doubtful. Every view of a comparison (terminal, pages, Markdown, JSON, Python) shows these.
#pragma once

#include <string>
#include <vector>

#include "server/comparison/comparison_evidence.h"

namespace tune::server {

// A sentence for each kernel but the first: "new is slower than old: 1.031 of its time [1.012,
// 1.050]", or, of several problems, in how many it is faster, slower, or not told apart. A kernel
// whose results differ from the first's is not judged there, and the sentence says so.
std::vector<std::string> VerdictsOf(const ComparisonEvidence& evidence);

// A sentence for each kernel whose intervals are wider than a fifth of its latency, with the
// problems at which they are.
std::vector<std::string> WarningsOf(const ComparisonEvidence& evidence);

}  // namespace tune::server
