// SPDX-License-Identifier: Apache-2.0
// The kernels of docs/examples, whose every config is compiled, and run where there is a device.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"

namespace tune {

// By the names of their folders' specs.
inline constexpr const char* kExamples[] = {
    "convolve/convolve", "cooperative/normalize", "groups/row_max", "partition/partition",
    "pipeline/scale",    "saxpy/saxpy",           "sparse/spmv",    "steps/split_sum"};

inline std::string ReadFileOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline absl::StatusOr<std::shared_ptr<const Kernel>> ReadExample(const std::string& name) {
  const std::string path = std::string(TUNE_PROJECT_DIR) + "/docs/examples/" + name;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const std::string text = ReadFileOf(path + ".textproto");
  absl::StatusOr<server::WrittenSpec> written = server::ReadSpec(name, text);
  if (!written.ok()) return written.status();
  const KernelSpec& spec = written->spec;
  std::map<std::string, std::string> files = {{spec.source, ReadFileOf(folder + spec.source)}};
  for (const std::string& header : spec.headers) files[header] = ReadFileOf(folder + header);
  const std::string reference = spec.reference.has_value() ? spec.reference->source : "";
  if (!reference.empty()) files[reference] = ReadFileOf(folder + reference);
  return Kernel::Create(spec, written->text, files);
}

inline std::vector<Config> ConfigsOf(const Kernel& kernel, const Problem& problem,
                                     const TargetTraits& traits) {
  const absl::StatusOr<Space> space = kernel.MakeSpace(problem, traits);
  std::vector<Config> configs;
  for (uint64_t i = 0; space.ok() && i < space->size(); ++i) configs.push_back(space->At(i));
  return configs;
}

}  // namespace tune
