// SPDX-License-Identifier: Apache-2.0
// Pseudo-random numbers that are the same on every machine and standard library.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tune {

// The finaliser of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : state_(Mix(seed)) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    return Mix(state_);
  }
  // In [0, size). REQUIRES: size > 0. The bias is below size / 2^64.
  uint64_t Below(uint64_t size) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * size) >> 64);
  }
  // In [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Uniform() < probability; }
  // Standard normal, by Box and Muller.
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

// A permutation of [0, size) that is computed, not stored. It is a Feistel network over the next
// power of four, applied until the value is within the range. Source: Black, Rogaway, "Ciphers with
// arbitrary finite domains", CT-RSA 2002.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed) : size_(size) {
    half_bits_ = size < 2 ? 1 : (std::bit_width(size - 1) + 1) / 2;
    for (uint64_t round = 0; round < keys_.size(); ++round) keys_[round] = Mix(Mix(seed) + round);
  }

  uint64_t operator()(uint64_t position) const {
    do {
      position = Encrypt(position);
    } while (position >= size_);
    return position;
  }

 private:
  uint64_t Encrypt(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint64_t key : keys_) {
      const uint64_t mixed = left ^ (Mix(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_;
  int half_bits_ = 1;
  std::array<uint64_t, 8> keys_ = {};
};

}  // namespace tune
