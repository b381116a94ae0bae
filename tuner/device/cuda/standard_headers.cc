// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/standard_headers.h"

#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tuner/source/source_lines.h"

namespace tune::embedded {
extern const std::string_view cuda_algorithm_header;
extern const std::string_view cuda_c_library_header;
extern const std::string_view cuda_cub_header;
extern const std::string_view cuda_integers_header;
extern const std::string_view cuda_math_header;
extern const std::string_view cuda_numbers_header;
}  // namespace tune::embedded

namespace tune::cuda {
namespace {

constexpr std::string_view kBuiltIn = "#pragma once\n";
// Headers of CUDA's own library, which is in the namespace cuda::std.
constexpr const char* kOfCuda[] = {"array",    "atomic",   "bit",        "chrono",
                                   "complex",  "concepts", "functional", "initializer_list",
                                   "iterator", "limits",   "numeric",    "optional",
                                   "ratio",    "span",     "tuple",      "type_traits",
                                   "utility",  "variant"};
// Headers of the host's library, which no kernel can use.
constexpr const char* kOfHost[] = {"condition_variable",
                                   "deque",
                                   "exception",
                                   "filesystem",
                                   "fstream",
                                   "future",
                                   "iomanip",
                                   "iostream",
                                   "istream",
                                   "list",
                                   "map",
                                   "memory",
                                   "mutex",
                                   "ostream",
                                   "queue",
                                   "random",
                                   "regex",
                                   "set",
                                   "sstream",
                                   "stack",
                                   "stdexcept",
                                   "string",
                                   "string_view",
                                   "thread",
                                   "unordered_map",
                                   "unordered_set",
                                   "vector"};

std::string OfCuda(const std::string& name, bool has_library) {
  if (!has_library) {
    return absl::StrCat("#error \"<", name, "> needs CUDA's C++ library (CCCL), which this CUDA ",
                        "installation lacks: pip install nvidia-cuda-cccl==13.0.*, or install the ",
                        "toolkit\"\n");
  }
  return absl::StrCat("#pragma once\n#include <cuda/std/", name,
                      ">\nnamespace std {\nusing namespace ::cuda::std;\n}\n");
}

constexpr absl::string_view kOfHostText =
    "> is of the host's library, which no kernel can use: put it, and what uses it, under #ifndef "
    "__CUDACC_RTC__";

std::string OfHost(const std::string& name) {
  return absl::StrCat("#error \"<", name, kOfHostText, "\"\n");
}

// The line of the text that includes the header; 0: none.
int LineThatIncludes(const std::string& text, const std::string& quoted) {
  const auto lines = SplitSource(text);
  if (!lines.ok()) return 0;
  for (const SourceLine& line : *lines) {
    const bool directive = line.tokens[0].text == "#" && absl::StrContains(line.text, "include");
    if (directive && absl::StrContains(line.text, quoted)) return line.line;
  }
  return 0;
}

}  // namespace

std::vector<SourceFile> StandardHeaders(const Toolkit& toolkit) {
  std::vector<SourceFile> headers;
  const auto add = [&](const std::string& name, std::string_view text) {
    headers.push_back({name, std::string(text)});
  };
  const auto add_c = [&](const std::string& name, std::string_view text) {
    add(absl::StrCat("c", name), text);
    add(absl::StrCat(name, ".h"), text);
  };
  const bool has_library = !toolkit.cccl_dir.empty();
  add(kNumbersHeader, embedded::cuda_numbers_header);
  for (const char* name : {"assert", "float", "limits"}) add_c(name, kBuiltIn);
  for (const char* name : {"stddef", "stdio", "stdlib", "string", "time"}) {
    add_c(name, embedded::cuda_c_library_header);
  }
  add_c("math", embedded::cuda_math_header);
  add_c("stdint", embedded::cuda_integers_header);
  add("algorithm", embedded::cuda_algorithm_header);
  add("new", kBuiltIn);
  for (const char* name : kOfCuda) add(name, OfCuda(name, has_library));
  for (const char* name : kOfHost) add(name, OfHost(name));
  if (has_library) add("cub/cub.cuh", embedded::cuda_cub_header);
  return headers;
}

std::string WhyNoHeader(const std::string& log, const std::vector<std::string>& include_roots) {
  constexpr std::string_view kMissing = "cannot open source file \"";
  const size_t begin = log.find(kMissing);
  if (begin == std::string::npos) return "";
  const size_t name = begin + kMissing.size();
  const size_t end = log.find('"', name);
  if (end == std::string::npos) return "";
  return absl::StrCat("<", log.substr(name, end - name), "> is not there for GPUs: it is neither ",
                      "a header of the spec's list (headers: ...), nor of the standard library's ",
                      "that kernels can use, nor CUDA's, nor of ",
                      include_roots.empty()
                          ? std::string("a folder that the spec names by include_roots")
                          : absl::StrCat("the include roots ", absl::StrJoin(include_roots, ", ")),
                      "\n");
}

std::string WhyHostHeader(const std::string& log, const CompilePlan& plan) {
  const size_t end = log.find(std::string(kOfHostText));
  if (end == std::string::npos) return "";
  const size_t begin = log.rfind('<', end);
  const std::string quoted = absl::StrCat(log.substr(begin, end - begin), ">");
  std::vector<SourceFile> files = plan.headers;
  files.insert(files.begin(), {plan.source_name, plan.source_text});
  for (const SourceFile& file : files) {
    const int line = LineThatIncludes(file.text, quoted);
    if (line == 0) continue;
    return absl::StrCat(file.name, ":", line, ": ", quoted, kOfHostText.substr(1), "\n");
  }
  return "";
}

}  // namespace tune::cuda
