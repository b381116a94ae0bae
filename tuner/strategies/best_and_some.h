// SPDX-License-Identifier: Apache-2.0
// Which of many results a model is fitted to. Internal to tuner/strategies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tuner/strategies/random_source.h"

namespace tune {

// Keeps `count` items: half of them the first by `key`, the others drawn from the rest. Fast
// configs matter one by one, and slow ones as a whole. REQUIRES: count <= items.size().
template <typename Item, typename Key>
void KeepBestAndSome(size_t count, Key key, RandomSource& random, std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& a, const Item& b) { return key(a) < key(b); });
  for (size_t i = count / 2; i < count; ++i) {
    std::swap(items[i], items[i + random.Below(items.size() - i)]);
  }
  items.resize(count);
}

}  // namespace tune
