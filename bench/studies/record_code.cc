// SPDX-License-Identifier: Apache-2.0
// Whether records of kernels in CUDA C++ are of today's machine code, without a GPU: compiles each
// record's config from the catalogue's sources and holds the result against what was measured. What
// a spec says of launches and inputs is not compared, but for the shared memory that they ask for.
//
//   record_code FILE        a device's records, like kernels/records/nvidia-h200.records.json.gz
//
// Prints JSON: the compiler, and of each record in the file's order its kernel's hash, "" where the
// catalogue has no such kernel, and whether the code is the same; else why not. Another release of
// NVRTC makes other code, and then none is the same.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "lookup/shipped_files.h"
#include "nlohmann/json.hpp"
#include "server/records/shipped_records.h"
#include "server/wire/spec.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

using nlohmann::json;
using Kernels = std::map<std::string, std::shared_ptr<const Kernel>>;

absl::StatusOr<Kernels> LoadKernels() {
  ASSIGN_OR_RETURN(const std::vector<CatalogueEntry> catalogue, LoadCatalogue());
  Kernels kernels;
  for (const CatalogueEntry& entry : catalogue) {
    ASSIGN_OR_RETURN(kernels[entry.name],
                     server::ReadKernel(entry.spec_name, entry.spec_text, entry.files));
  }
  return kernels;
}

// INVALID_ARGUMENT: the kernel has no such config today.
absl::StatusOr<std::string> CodeOf(const lookup::Record& record, const Kernel& kernel,
                                   Compiler& compiler) {
  if (kernel.language() != Language::kCuda) {
    return absl::InvalidArgumentError("the kernel is not in CUDA C++");
  }
  ASSIGN_OR_RETURN(const TargetTraits traits, TargetTraitsFor(record.key.target));
  RETURN_IF_ERROR(kernel.CheckConfig(record.key.problem, traits, record.trial.config));
  ASSIGN_OR_RETURN(const ProgramPlan plan,
                   kernel.PlanProgram(record.key.problem, traits, record.trial.config));
  ASSIGN_OR_RETURN(Artifact artifact, compiler.Compile(plan.compile));
  if (artifact.outcome != Outcome::kOk) return absl::InvalidArgumentError(artifact.log);
  int64_t shared_bytes = 0;
  for (const StepPlan& step : plan.steps) {
    shared_bytes = std::max<int64_t>(shared_bytes, step.launch.shared_bytes);
  }
  if (shared_bytes != record.trial.resources.dynamic_shared_bytes) {
    return absl::InvalidArgumentError("its launches ask for other shared memory");
  }
  DescribeBinary(artifact);
  return artifact.resources.binary_sha256;
}

json Compared(const lookup::Record& record, const Kernels& kernels, Compiler& compiler) {
  const auto kernel = kernels.find(record.kernel_name);
  if (kernel == kernels.end()) return {{"kernel_hash", ""}, {"same", false}};
  const absl::StatusOr<std::string> code = CodeOf(record, *kernel->second, compiler);
  json compared = {{"kernel_hash", kernel->second->hash()},
                   {"same", code.ok() && *code == record.trial.resources.binary_sha256}};
  if (!code.ok()) compared["why"] = std::string(code.status().message());
  return compared;
}

absl::Status Main(const std::string& path) {
  ASSIGN_OR_RETURN(lookup::ShippedFile file, lookup::ReadShippedFile(path));
  ASSIGN_OR_RETURN(const auto shipped, server::ShippedRecords::Open({std::move(file)}));
  ASSIGN_OR_RETURN(const std::vector<lookup::Record> records, shipped->All());
  ASSIGN_OR_RETURN(const Kernels kernels, LoadKernels());
  ASSIGN_OR_RETURN(auto compiler, cuda::MakeNvrtcCompiler());
  json result = {{"compiler", compiler->Version()}, {"records", json::array()}};
  for (const lookup::Record& record : records) {
    result["records"].push_back(Compared(record, kernels, *compiler));
  }
  std::printf("%s\n", result.dump(1).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: record_code FILE\n");
    return 2;
  }
  const absl::Status status = tune::Main(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
