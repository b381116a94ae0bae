// SPDX-License-Identifier: Apache-2.0
// Ways to run into each ceiling: which kernel of ceilings.cu, launched how.
#pragma once

#include <string>
#include <vector>

#include "tuner/device/runner.h"

namespace tune::cuda {

enum class ProbeShape {
  kCopy,         // in -> out; the grid covers the array
  kRead,         // in
  kWrite,        // out
  kTriad,        // in, third -> out
  kBulkCopy,     // in -> out by the bulk copy engine; a grid of a few blocks per multiprocessor
  kDriverCopy,   // cuMemcpyDtoD
  kMemset,       // cuMemsetD8
  kSecondLevel,  // rounds over a set that fits the L2
  kFirstLevel,   // rounds over a set that fits each L1
  kRounds,       // rounds without memory
};

struct Probe {
  std::string ceiling;  // "dram_copy", "tensor_bf16"
  std::string kernel;   // of ceilings.cu, less its prefix
  CeilingKind kind = CeilingKind::kUnknown;
  ProbeShape shape = ProbeShape::kRounds;
  unsigned threads = 256;
  unsigned words_per_thread = 0;  // where the grid covers the array: words of 16 bytes
  unsigned blocks_per_sm = 0;     // else
  double work_per_round = 0;      // of a thread: FLOPs, or bytes
  // The text for people: "copy_4, 512 threads".
  std::string Text() const;
};

// The probes that sweeps need, or all.
std::vector<Probe> ProbesFor(int sm, bool suite);

// The probes for calibration, one for each way to compute whose operations a counter counts.
// `ceiling` is then the quantity, and `kernel` tells entries of the same quantity apart.
std::vector<Probe> CountedProbesFor(int sm);

// The device's figures, as far as the driver reports them.
struct DeviceFigures {
  int sm = 0;
  int sm_count = 0;
  double sm_clock_hz = 0;  // highest
  double memory_clock_hz = 0;
  double memory_bus_bits = 0;
};

// Bytes or FLOPs a second at the highest clock; 0 if not known. Sources: the CUDA programming
// guide's table of throughput per multiprocessor, and the architecture papers for tensor cores.
double TheoreticalOf(const std::string& ceiling, const DeviceFigures& figures);

}  // namespace tune::cuda
