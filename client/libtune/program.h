// SPDX-License-Identifier: Apache-2.0
// The file of an artifact (docs/artifacts.md), read: which entries of which binaries are launched
// how, one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::library {

struct Program {
  // A parameter of a launch: exactly one of the three.
  struct Arg {
    enum class Kind { kBuffer = 1, kScalar = 2, kTensorMap = 3 };
    Kind kind = Kind::kBuffer;
    std::string name;
    std::string dtype;  // of an element, of the scalar
    // A buffer.
    std::string role;  // "input", "output", "inout", "scratch"
    int64_t count = 0;
    // A scalar, as the kernel takes it: up to 8 bytes.
    std::string value;
    // A tensor map.
    std::string buffer;
    std::vector<uint64_t> dims;
    std::vector<uint64_t> strides_bytes;
    std::vector<uint64_t> box;
    int64_t swizzle_bytes = 0;
    int64_t l2_promotion_bytes = 0;
  };
  struct Step {
    std::string entry;
    size_t unit = 0;
    std::array<uint32_t, 3> grid = {};
    std::array<uint32_t, 3> block = {};
    std::array<uint32_t, 3> cluster = {};
    uint32_t shared_bytes = 0;
    bool cooperative = false;
    bool programmatic_dependent_launch = false;
    bool resident = false;
    std::vector<Arg> args;  // in the order of the parameters
    std::vector<Arg> zero;  // buffers
  };
  struct Symbol {
    std::string variable;
    size_t unit = 0;
    Arg buffer;
  };

  std::vector<std::string> binaries;  // by unit
  std::vector<Step> steps;
  std::vector<Symbol> symbols;
};

// INVALID_ARGUMENT: it is no artifact, or of another version.
absl::StatusOr<Program> ParseProgram(const std::string& file);

}  // namespace tune::library
