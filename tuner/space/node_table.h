// SPDX-License-Identifier: Apache-2.0
// The nodes of one level while it is built: a hash table whose keys are the words of their slots.
// Internal to tuner/space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tuner/space/term.h"

namespace tune {

class NodeTable {
 public:
  explicit NodeTable(size_t width) : columns_(width) {}

  size_t width() const { return columns_.size(); }
  size_t size() const { return size_; }
  // Memory that is reserved and not used costs only addresses, so it does not count.
  size_t bytes() const {
    return (hashes_.size() + columns_.size() * size_) * sizeof(Word) +
           buckets_.size() * sizeof(uint32_t);
  }
  void Reserve(size_t nodes) {
    for (std::vector<Word>& column : columns_) column.reserve(nodes);
  }
  const Word* column(size_t i) const { return columns_[i].data(); }

  // Finds or adds a node for each of `count` keys, given as `width` columns. `fresh` becomes the
  // positions of the keys whose nodes were added.
  void Insert(const std::vector<const Word*>& keys, size_t count, uint32_t* nodes,
              std::vector<uint32_t>* fresh) {
    fresh->clear();
    if (keys.empty()) {
      if (count > 0 && size_ == 0) {
        fresh->push_back(0);
        size_ = 1;
      }
      for (size_t i = 0; i < count; ++i) nodes[i] = 0;
      return;
    }
    if ((size_ + count) * 2 > buckets_.size()) Grow(size_ + count);
    HashAll(keys, count);
    const size_t mask = buckets_.size() - 1;
    for (size_t i = 0; i < count; ++i) {
      size_t at = hashes_[i] & mask;
      while (buckets_[at] != 0 && !IsSame(buckets_[at] - 1, keys, i)) at = (at + 1) & mask;
      if (buckets_[at] == 0) {
        for (size_t j = 0; j < keys.size(); ++j) columns_[j].push_back(keys[j][i]);
        buckets_[at] = ++size_;
        fresh->push_back(static_cast<uint32_t>(i));
      }
      nodes[i] = buckets_[at] - 1;
    }
  }

 private:
  static uint64_t Mix(uint64_t hash, Word word) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
  }

  void HashAll(const std::vector<const Word*>& keys, size_t count) {
    hashes_.assign(count, 0);
    for (const Word* words : keys) {
      for (size_t i = 0; i < count; ++i) hashes_[i] = Mix(hashes_[i], words[i]);
    }
  }

  bool IsSame(uint32_t node, const std::vector<const Word*>& keys, size_t i) const {
    for (size_t j = 0; j < keys.size(); ++j) {
      if (columns_[j][node] != keys[j][i]) return false;
    }
    return true;
  }

  void Grow(size_t nodes) {
    size_t buckets = 256;
    while (buckets < nodes * 2) buckets *= 2;
    buckets_ = {};  // frees the old buckets before the new ones are held
    buckets_.assign(buckets, 0);
    for (uint32_t node = 0; node < size_; ++node) {
      uint64_t hash = 0;
      for (const std::vector<Word>& column : columns_) hash = Mix(hash, column[node]);
      size_t at = hash & (buckets - 1);
      while (buckets_[at] != 0) at = (at + 1) & (buckets - 1);
      buckets_[at] = node + 1;
    }
  }

  std::vector<std::vector<Word>> columns_;
  std::vector<uint32_t> buckets_;  // node + 1
  std::vector<uint64_t> hashes_;
  uint32_t size_ = 0;
};

}  // namespace tune
