// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/probe.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tune::cuda {
namespace {

// A round of the multiply-add kernels is 64 of them in a thread; of the tensor kernels, sixteen
// products of 64 x 256 a warpgroup, or eight of 16 x 8 a warp, `depth` elements deep.
constexpr double kChainFlops = 2.0 * 64;
constexpr double WgmmaFlops(int depth) { return 16.0 * 2 * 64 * 256 * depth / 128; }
constexpr double MmaFlops(int depth) { return 8.0 * 2 * 16 * 8 * depth / 32; }
constexpr double kCacheBytes = 8 * 16;  // of a thread, a round of the cache kernels

// Elements of a type that are 32 bytes, the depth of every product.
struct TensorType {
  const char* name;
  int depth;
};
constexpr TensorType kTensorTypes[] = {
    {"bf16", 16}, {"f16", 16}, {"tf32", 8}, {"f8", 32}, {"i8", 32}};

bool HasFloat8Mma(int sm) { return sm == 89 || sm >= 120; }

Probe TensorProbe(const TensorType& type, bool by_warpgroups, unsigned blocks_per_sm) {
  return {.ceiling = absl::StrCat("tensor_", type.name),
          .kernel = absl::StrCat(by_warpgroups ? "wgmma_" : "mma_", type.name),
          .kind = CeilingKind::kTensor,
          .blocks_per_sm = blocks_per_sm,
          .work_per_round = by_warpgroups ? WgmmaFlops(type.depth) : MmaFlops(type.depth)};
}

// Adds no probe where only tcgen05 drives the tensor cores at full rate (sm_10x): these kernels
// would not reach the ceiling, and no ceiling is better than a wrong one.
void AddTensor(int sm, bool suite, std::vector<Probe>& probes) {
  if (sm >= 100 && sm < 120) return;
  for (const TensorType& type : kTensorTypes) {
    const std::string name = type.name;
    if (sm == 90) {
      if (suite || name == "bf16" || name == "f16") {
        probes.push_back(TensorProbe(type, /*by_warpgroups=*/true, 1));
      }
      continue;
    }
    if (name == "f8" && !HasFloat8Mma(sm)) continue;
    for (unsigned blocks : {1u, 2u, 4u}) {
      probes.push_back(TensorProbe(type, /*by_warpgroups=*/false, blocks));
    }
  }
}

void AddTiles(const std::string& ceiling, ProbeShape shape, const std::string& kernel,
              std::initializer_list<unsigned> unrolls, std::vector<Probe>& probes) {
  for (unsigned unroll : unrolls) {
    for (unsigned threads : {256u, 512u, 1024u}) {
      probes.push_back({.ceiling = ceiling,
                        .kernel = absl::StrCat(kernel, "_", unroll),
                        .kind = CeilingKind::kDram,
                        .shape = shape,
                        .threads = threads,
                        .words_per_thread = unroll});
    }
  }
}

void AddMemory(int sm, bool suite, std::vector<Probe>& probes) {
  AddTiles("dram_copy", ProbeShape::kCopy, "copy", {1, 2, 4, 8}, probes);
  AddTiles("dram_read", ProbeShape::kRead, "read", {2, 4, 8}, probes);
  AddTiles("dram_write", ProbeShape::kWrite, "write", {1, 4}, probes);
  if (!suite) return;
  AddTiles("dram_triad", ProbeShape::kTriad, "triad", {1, 2, 4}, probes);
  const auto add = [&](const char* ceiling, const char* kernel, ProbeShape shape, unsigned blocks) {
    probes.push_back({.ceiling = ceiling,
                      .kernel = kernel,
                      .kind = CeilingKind::kDram,
                      .shape = shape,
                      .threads = 32,
                      .blocks_per_sm = blocks});
  };
  add("dram_copy", "driver", ProbeShape::kDriverCopy, 0);
  add("dram_write", "driver", ProbeShape::kMemset, 0);
  if (sm < 90) return;
  for (unsigned blocks : {2u, 4u, 5u}) add("dram_copy", "copy_bulk", ProbeShape::kBulkCopy, blocks);
}

void AddCaches(std::vector<Probe>& probes) {
  // More threads would leave the slice of each too small.
  for (unsigned threads : {512u, 1024u}) {
    probes.push_back({"l2", "l2", CeilingKind::kL2, ProbeShape::kSecondLevel, threads, 0,
                      1024 / threads, kCacheBytes});
  }
  for (unsigned blocks : {2u, 4u}) {
    probes.push_back({"shared", "shared", CeilingKind::kShared, ProbeShape::kRounds, 256, 0, blocks,
                      kCacheBytes});
  }
  for (unsigned threads : {256u, 512u}) {
    probes.push_back(
        {"l1", "l1", CeilingKind::kL1, ProbeShape::kFirstLevel, threads, 0, 1, kCacheBytes});
  }
}

void AddVector(bool suite, std::vector<Probe>& probes) {
  for (unsigned blocks : {2u, 4u, 8u}) {
    if (blocks == 2 && !suite) continue;
    for (const char* type : {"f64", "f32", "f16"}) {
      const double pairs = std::string(type) == "f16" ? 2 : 1;
      probes.push_back({.ceiling = type,
                        .kernel = type,
                        .kind = CeilingKind::kVector,
                        .blocks_per_sm = blocks,
                        .work_per_round = pairs * kChainFlops});
    }
  }
}

// FLOPs of a multiprocessor and clock; 0 where we do not know for certain.
double FlopsPerClock(const std::string& type, int sm) {
  struct Row {
    int sm;
    double f32;
    double f64;
    double f16;
    double bf16;  // dense, by tensor cores
  };
  constexpr Row kRows[] = {
      {80, 128, 64, 512, 2048},  {86, 256, 4, 512, 0},  {89, 256, 4, 0, 0},
      {90, 256, 128, 512, 4096}, {100, 256, 128, 0, 0}, {120, 256, 4, 0, 0},
  };
  for (const Row& row : kRows) {
    if (row.sm != sm) continue;
    if (type == "f32") return row.f32;
    if (type == "f64") return row.f64;
    if (type == "f16") return row.f16;
    if (type == "tensor_bf16" || type == "tensor_f16") return row.bf16;
    if (type == "tensor_tf32") return row.bf16 / 2;
    if (type == "tensor_i8" || (type == "tensor_f8" && sm == 90)) return row.bf16 * 2;
  }
  return 0;
}

}  // namespace

std::string Probe::Text() const {
  if (shape == ProbeShape::kDriverCopy) return "cuMemcpyDtoD";
  if (shape == ProbeShape::kMemset) return "cuMemset";
  std::string text = absl::StrCat(kernel, ", ", threads, " threads");
  if (blocks_per_sm > 0) absl::StrAppend(&text, ", ", blocks_per_sm, " blocks/SM");
  return text;
}

std::vector<Probe> ProbesFor(int sm, bool suite) {
  std::vector<Probe> probes;
  AddMemory(sm, suite, probes);
  if (suite) AddCaches(probes);
  AddVector(suite, probes);
  AddTensor(sm, suite, probes);
  return probes;
}

std::vector<Probe> CountedProbesFor(int sm) {
  std::vector<Probe> probes;
  AddVector(/*suite=*/false, probes);
  std::erase_if(probes, [](const Probe& probe) { return probe.blocks_per_sm != 4; });
  for (const TensorType& type : kTensorTypes) {
    if (std::string(type.name) != "f8" || HasFloat8Mma(sm)) {
      probes.push_back(TensorProbe(type, /*by_warpgroups=*/false, 1));
    }
    if (sm == 90) probes.push_back(TensorProbe(type, /*by_warpgroups=*/true, 1));
  }
  return probes;
}

double TheoreticalOf(const std::string& ceiling, const DeviceFigures& figures) {
  if (absl::StartsWith(ceiling, "dram_")) {
    return 2 * figures.memory_clock_hz * figures.memory_bus_bits / 8;  // both edges
  }
  const double clocks = figures.sm_clock_hz * figures.sm_count;
  if (ceiling == "shared") return 128 * clocks;
  if (ceiling == "l1") return (figures.sm == 86 || figures.sm == 89 ? 64 : 128) * clocks;
  return FlopsPerClock(ceiling, figures.sm) * clocks;
}

}  // namespace tune::cuda
