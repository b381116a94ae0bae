// SPDX-License-Identifier: Apache-2.0
#include "tuner/artifact.h"

#include <algorithm>

namespace tune {

void AddResources(const Resources& entry, Resources& resources) {
  for (int64_t Resources::*field :
       {&Resources::registers, &Resources::spill_bytes, &Resources::stack_bytes,
        &Resources::static_shared_bytes, &Resources::dynamic_shared_bytes}) {
    resources.*field = std::max(resources.*field, entry.*field);
  }
}

}  // namespace tune
