// SPDX-License-Identifier: Apache-2.0
#include "tuner/source/constructs.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
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
constexpr absl::string_view kHostCode =
    "a kernel's source has no code of the host; let steps of the spec launch, and cut the rest out "
    "or put it under #if !defined(__CUDACC_RTC__) && !defined(TUNE_CPU)";
constexpr absl::string_view kNeedsBf16 = "its header is missing: #include <cuda_bf16.h>";
constexpr absl::string_view kNeedsFp8 = "its header is missing: #include <cuda_fp8.h>";
constexpr absl::string_view kNeedsHalf = "its header is missing: #include <cuda_fp16.h>";

constexpr std::array<Construct, 15> kNowhere = {{
    {"cudaMalloc", kHostCode, true},
    {"cudaMemcpy", kHostCode, true},
    {"cudaMemset", kHostCode, true},
    {"cudaError_t", kHostCode},
    {"cudaStream_t", kHostCode},
    {"cudaGetLastError", kHostCode},
    {"cudaDeviceSynchronize", kHostCode},
    {"checkCudaErrors", kHostCode},
    {"getLastCudaError", kHostCode},
    {"cudaCheck", kHostCode},
    {"__nv_bfloat16", kNeedsBf16},
    {"nv_bfloat16", kNeedsBf16},
    {"__nv_fp8_e4m3", kNeedsFp8},
    {"__half", kNeedsHalf},
    {"half", kNeedsHalf},
}};

constexpr std::array<Construct, 1> kNotOnGpu = {{
    {"texture",
     "CUDA has no texture references any more: read the buffer, by __ldg or as const "
     "__restrict__"},
}};

constexpr std::array<Construct, 19> kNotOnHost = {{
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
    {"coalesced_threads",
     "groups of the threads that happen to run together are not there: use "
     "tiled_partition<32>(this_thread_block())"},
    {"cub", kCubOrStd},
    {"cuda", kCubOrStd},
}};

bool Mentions(absl::string_view line, const Construct& construct) {
  if (!construct.prefix) return HasWord(line, construct.word);
  const size_t at = line.find(construct.word);
  // Up to its end it is a word of its own.
  return at != absl::string_view::npos &&
         HasWord(line.substr(0, at + construct.word.size()), construct.word);
}

// "blur.cu:14" of "blur.cu:14:7" and of NVRTC's "blur.cu(14)".
std::string PlaceIn(absl::string_view place) {
  if (absl::ConsumeSuffix(&place, ")")) {
    const size_t open = place.rfind('(');
    return absl::StrCat(place.substr(0, open), ":", place.substr(open + 1));
  }
  const size_t number = place.find(':');
  return std::string(place.substr(0, place.find(':', number + 1)));
}

const Construct* FirstMentioned(absl::string_view line, absl::Span<const Construct> constructs) {
  for (const Construct& construct : constructs) {
    if (Mentions(line, construct)) return &construct;
  }
  return nullptr;
}

std::string Explained(const std::string& log, absl::Span<const Construct> lacking,
                      absl::string_view where) {
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t error = line.find(": error: ");
    if (error == absl::string_view::npos) continue;
    const Construct* nowhere = FirstMentioned(line.substr(error), kNowhere);
    const Construct* found = nowhere ? nowhere : FirstMentioned(line.substr(error), lacking);
    if (found == nullptr) continue;
    return absl::StrCat(PlaceIn(line.substr(0, error)), ": ", found->word,
                        found->prefix ? "...: " : ": ", nowhere ? "" : where, found->what, "\n");
  }
  return "";
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
  return Explained(log, kNotOnHost, "on the CPU device ");
}

std::string WhyNotOnGpu(const std::string& log) { return Explained(log, kNotOnGpu, ""); }

}  // namespace tune
