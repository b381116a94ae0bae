// SPDX-License-Identifier: Apache-2.0
// The counters of each quantity, by every name that chips have for them. No CUDA in here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tuner/counters/counting.h"

namespace tune::cuda {

// A counter. It adds weight times its value to a quantity (see Quantities).
struct MetricTerm {
  std::string quantity;
  double weight = 1;
  std::string metric;  // with its rollup: "dram__bytes_read.sum"
};

// Metrics that are collected together. Instruction counts instrument the code, so the hardware
// counts of a group and they are never in the same pass.
struct MetricGroup {
  std::string name;  // "H", "S", "X", "O", or the quantity of a group for one alone
  std::vector<MetricTerm> terms;
};

// Has the chip a base metric ("dram__bytes_read")?
using HasMetric = std::function<bool(const std::string& base)>;

// The groups of a set, in the names of a chip; terms it has no counter for are left out, and groups
// without any term.
//   default  H and S: bytes of each level, clocks, tensor instructions; FLOPs. 2 passes
//   flops    S
//   tensor   H, S and X: tensor operations by type. 6 to 8 passes more
//   all      H, S, X and O: occupancy, stalls, hit rate, shared memory. 6 passes more
std::vector<MetricGroup> GroupsOf(MetricSet set, const HasMetric& has);

// The tensor operations of one type alone: "tensor_bf16". Without terms if the chip counts none.
MetricGroup TensorGroup(const std::string& quantity, const HasMetric& has);

// "dram__bytes_read" of "dram__bytes_read.sum".
std::string BaseOf(const std::string& metric);

// The sums of the readings by quantity. A quantity of which no counter was read is absent.
Quantities QuantitiesOf(const std::vector<MetricGroup>& groups,
                        const std::vector<CounterReading>& readings);

}  // namespace tune::cuda
