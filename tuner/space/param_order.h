// SPDX-License-Identifier: Apache-2.0
// In which order to build the diagram of a component. Internal to tuner/space.
#pragma once

#include <vector>

#include "tuner/space/column_plan.h"
#include "tuner/space/term.h"

namespace tune {

// An order of `params` in which the estimated number of nodes stays small. Params of a constraint
// are close together in it, so the constraint decides early and little has to be kept. `atoms` are
// over these params.
std::vector<size_t> ChooseOrder(const TermGraph& graph, const std::vector<Atom>& atoms,
                                const std::vector<std::vector<Word>>& param_words,
                                const std::vector<size_t>& radices,
                                const std::vector<size_t>& params);

}  // namespace tune
