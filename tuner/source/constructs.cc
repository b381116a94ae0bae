// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/constructs.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tuner/source/entry_name.h"
#include "tuner/source/source_functions.h"

namespace tune {
namespace {

struct Construct {
  absl::string_view word;  // as the compiler names it; what begins with it counts where `prefix`
  absl::string_view what;
  bool prefix = false;
};

constexpr absl::string_view kTextures =
    "textures and surfaces are not there: read the buffer, by __ldg or as const __restrict__";
constexpr absl::string_view kAssembly =
    "PTX by inline assembly is not there: put it under #ifndef TUNE_CPU, with plain C++ beside it";
constexpr absl::string_view kTensorCores =
    "tensor cores are not there: write that path by plain loops under #if TUNE_CPU";
constexpr absl::string_view kAsync =
    "asynchronous copies and pipelines are not there: copy by plain loads and __syncthreads()";
constexpr absl::string_view kClusters = "clusters of blocks are not there";
constexpr absl::string_view kCubOrStd =
    "CUDA's C++ libraries are not there: use <cooperative_groups.h> or the warp functions";
constexpr absl::string_view kLaunches =
    "a kernel cannot call the runtime or launch kernels: let steps of the spec do so";

constexpr std::array<Construct, 21> kNotOnHost = {{
    {"tex1D", kTextures, true},
    {"tex2D", kTextures, true},
    {"tex3D", kTextures, true},
    {"surf1D", kTextures, true},
    {"surf2D", kTextures, true},
    {"surf3D", kTextures, true},
    {"texture", kTextures},
    {"cudaTextureObject_t", kTextures},
    {"cudaSurfaceObject_t", kTextures},
    {"asm", kAssembly},
    {"__asm__", kAssembly},
    {"nvcuda", kTensorCores},
    {"wmma", kTensorCores},
    {"__pipeline_", kAsync, true},
    {"cluster_group", kClusters},
    {"this_cluster", kClusters},
    {"coalesced_threads", "groups of the threads that happen to run together are not there: use "
                          "tiled_partition<32>(this_thread_block())"},
    {"cub", kCubOrStd},
    {"cuda", kCubOrStd},
    {"cudaMalloc", kLaunches, true},
    {"cudaMemcpy", kLaunches, true},
}};

bool Mentions(absl::string_view line, const Construct& construct) {
  if (!construct.prefix) return HasWord(line, construct.word);
  const size_t at = line.find(construct.word);
  // Up to its end it is a word of its own.
  return at != absl::string_view::npos &&
         HasWord(line.substr(0, at + construct.word.size()), construct.word);
}

// "blur.cu:14" of "blur.cu:14:7: error: ...".
absl::string_view PlaceIn(absl::string_view line) {
  const size_t file = line.find(':');
  const size_t number = file == absl::string_view::npos ? file : line.find(':', file + 1);
  return line.substr(0, number);
}

}  // namespace

std::string WhyNoSuchParameter(const CompilePlan& plan) {
  for (const std::string& entry : plan.entries) {
    const SourceFunction function = EntryOf(plan, entry);
    for (const std::string& parameter : function.parameters) {
      const bool texture = HasWord(parameter, "cudaTextureObject_t");
      if (!texture && !HasWord(parameter, "cudaSurfaceObject_t")) continue;
      return absl::StrCat(PlaceOf(plan, function), ": '", entry, "' takes '", parameter,
                          "', which no arg of a spec can be: ", kTextures);
    }
  }
  return "";
}

std::string WhyNotOnHost(const std::string& log) {
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t error = line.find(" error: ");
    if (error == absl::string_view::npos) continue;
    for (const Construct& construct : kNotOnHost) {
      if (!Mentions(line.substr(error), construct)) continue;
      return absl::StrCat(PlaceIn(line), ": ", construct.word, construct.prefix ? "...: " : ": ",
                          "on the CPU device ", construct.what, "\n");
    }
  }
  return "";
}

}  // namespace tune
