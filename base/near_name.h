// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped names: the known name that is nearest to a wrong one, for errors that
// end in "did you mean X?".
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune {

// The candidate that is at most two slips away from `word` and nearest to it, whatever the case of
// the letters, else the shortest that `word` abbreviates ("attn"); empty if none is. A
// slip is a letter left out, put in, exchanged or swapped with its neighbour (F. J. Damerau, "A
// technique for computer detection and correction of spelling errors", CACM 7(3), 1964). A word
// has at most one slip for each three letters.
std::string NearName(absl::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'softmax'?", or empty if no candidate is near.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace tune
