// SPDX-License-Identifier: Apache-2.0
// How long NVRTC takes for a variant of each kernel of the catalogue, without a GPU: the default
// config and others drawn at random, one after the other in one process, after one that is not
// counted.
//
//   compile_benchmark [KERNEL ...] [--target=sm_90a] [--variants=15] [--seed=1] [--out=FOLDER]
//
// Times are of the process's CPU, since a busy host would tell more about its other work. --out
// leaves each cubin and its options in a folder, to be held against those of another revision.
// Prints JSON.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "nlohmann/json.hpp"
#include "server/wire/spec.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/kernel/kernel.h"
#include "tuner/strategies/strategy.h"

namespace tune {
namespace {

using nlohmann::json;

struct Flags {
  std::set<std::string> kernels;  // empty: all
  std::string target = "sm_90a";
  uint64_t variants = 15;
  uint64_t seed = 1;
  std::string out;
};

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    bool is_number = true;
    if (absl::ConsumePrefix(&text, "--target=")) {
      flags.target = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--variants=")) {
      is_number = absl::SimpleAtoi(text, &flags.variants) && flags.variants > 0;
    } else if (absl::ConsumePrefix(&text, "--seed=")) {
      is_number = absl::SimpleAtoi(text, &flags.seed);
    } else if (absl::ConsumePrefix(&text, "--out=")) {
      flags.out = std::string(text);
    } else if (absl::StartsWith(text, "-")) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag '", text, "'"));
    } else {
      flags.kernels.insert(std::string(text));
    }
    if (!is_number) return absl::InvalidArgumentError(absl::StrCat("not a number: ", argv[i]));
  }
  return flags;
}

double CpuMilliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// The default first, then others in a random order that the seed repeats.
absl::StatusOr<std::vector<Config>> ConfigsOf(const Kernel& kernel, const Problem& problem,
                                              const TargetTraits& traits, const Flags& flags) {
  ASSIGN_OR_RETURN(const Space space, kernel.MakeSpace(problem, traits));
  ASSIGN_OR_RETURN(const Config first, kernel.DefaultConfig(problem, traits));
  ASSIGN_OR_RETURN(
      auto strategy,
      MakeStrategy("random", space, {.seed = flags.seed, .first = space.IndexOf(first)}));
  std::vector<Config> configs;
  for (auto index = strategy->Ask(); index && configs.size() < flags.variants;
       index = strategy->Ask()) {
    configs.push_back(space.At(*index));
  }
  return configs;
}

void Write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

json Figures(std::vector<double> milliseconds) {
  if (milliseconds.empty()) return nullptr;
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto at = [&](double share) {
    return milliseconds[static_cast<size_t>(share * static_cast<double>(milliseconds.size() - 1))];
  };
  return {{"median", at(0.5)}, {"low", at(0)}, {"high", at(1)}};
}

// Null: the kernel is for other targets.
absl::StatusOr<json> Measure(const CatalogueEntry& entry, Compiler& compiler,
                             const TargetTraits& traits, const Flags& flags) {
  ASSIGN_OR_RETURN(auto kernel, server::ReadKernel(entry.spec_name, entry.spec_text, entry.files));
  if (!kernel->RunsOn(flags.target) || kernel->language() != Language::kCuda) return json(nullptr);
  ASSIGN_OR_RETURN(const Problem problem, kernel->MakeProblem({}, "", flags.target));
  ASSIGN_OR_RETURN(const std::vector<Config> configs, ConfigsOf(*kernel, problem, traits, flags));
  std::vector<double> milliseconds;
  for (size_t i = 0; i < configs.size(); ++i) {
    ASSIGN_OR_RETURN(const ProgramPlan plan, kernel->PlanProgram(problem, traits, configs[i]));
    if (i == 0) RETURN_IF_ERROR(compiler.Compile(plan.compile).status());
    const double begin = CpuMilliseconds();
    ASSIGN_OR_RETURN(const Artifact artifact, compiler.Compile(plan.compile));
    milliseconds.push_back(CpuMilliseconds() - begin);
    if (artifact.outcome != Outcome::kOk) {
      return absl::InternalError(
          absl::StrCat(entry.name, ": ", ToText(configs[i]), ": ", artifact.log));
    }
    if (flags.out.empty()) continue;
    const std::string stem = absl::StrCat(flags.out, "/", entry.name, "-", i);
    Write(stem + ".cubin", artifact.binary);
    json options = {{"config", ToText(configs[i])}, {"milliseconds", milliseconds.back()}};
    for (const auto& [name, value] : plan.compile.defines) options["defines"][name] = value;
    Write(stem + ".json", options.dump(1));
  }
  return json{{"variants", milliseconds.size()}, {"cpu_ms", Figures(milliseconds)}};
}

absl::Status Main(const Flags& flags) {
  ASSIGN_OR_RETURN(auto compiler, cuda::MakeNvrtcCompiler());
  ASSIGN_OR_RETURN(const TargetTraits traits, TargetTraitsFor(flags.target));
  ASSIGN_OR_RETURN(const std::vector<CatalogueEntry> catalogue, LoadCatalogue());
  if (!flags.out.empty()) std::filesystem::create_directories(flags.out);
  json result = {{"target", flags.target},
                 {"compiler", compiler->Version()},
                 {"seed", flags.seed},
                 {"kernels", json::object()}};
  for (const CatalogueEntry& entry : catalogue) {
    if (!flags.kernels.empty() && flags.kernels.count(entry.name) == 0) continue;
    ASSIGN_OR_RETURN(const json measured, Measure(entry, *compiler, traits, flags));
    if (!measured.is_null()) result["kernels"][entry.name] = measured;
  }
  std::printf("%s\n", result.dump(1).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) {
  const absl::StatusOr<tune::Flags> flags = tune::ParseFlags(argc, argv);
  const absl::Status status = flags.ok() ? tune::Main(*flags) : flags.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
