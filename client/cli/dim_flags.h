// SPDX-License-Identifier: Apache-2.0
// Dims are flags: `--seq 4096`. Which ones there are is known only once the kernel is, so they are
// taken out of the command line before it is parsed and checked against the spec afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tune/v1/kernel.pb.h"

namespace tune::client {

struct SplitArguments {
  std::vector<std::string> known;           // in order, for the parser
  std::map<std::string, std::string> dims;  // name -> text of the value
};

// Takes every `--name value` and `--name=value` whose name is not in `known_names` for a dim. `--`
// and short flags are left alone.
absl::StatusOr<SplitArguments> SplitDims(const std::vector<std::string>& arguments,
                                         const std::set<std::string>& known_names);

// The values of the dims' flags: "4096", "4k" (4000) or "4Ki" (4096). INVALID_ARGUMENT names the
// flag. Whether the kernel has such dims is for the server to say.
absl::StatusOr<std::map<std::string, int64_t>> ParseDims(
    const std::map<std::string, std::string>& dims);

// The values of a swept dim: "512..16384" (doubling), "512..16384:512" (steps of 512) or
// "512,1024,4096". INVALID_ARGUMENT if there are none, or more than `values_max`.
struct DimSweep {
  std::string dim;
  std::vector<int64_t> values;
};
// "seq=512..16384".
absl::StatusOr<DimSweep> ParseDimSweep(const std::string& text, size_t values_max);

// "  --seq INT  query length (default 4096; on cpu 1024)", a line for each dim.
std::string DimHelp(const v1::KernelSpec& spec);

}  // namespace tune::client
