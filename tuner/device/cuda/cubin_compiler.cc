// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/cubin_compiler.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/cubin.h"
#include "tuner/device/cuda/nvrtc_compiler.h"

namespace tune::cuda {
namespace {

// A cubin runs on its own architecture and later ones of the same generation: sm_80 on sm_86, not
// on sm_90. INVALID_ARGUMENT says why not.
absl::Status CheckCubinTarget(int cubin_sm, const std::string& target) {
  absl::string_view digits = target;
  int sm = 0;
  absl::ConsumePrefix(&digits, "sm_");
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  if (absl::SimpleAtoi(digits, &sm) && sm / 10 == cubin_sm / 10 && cubin_sm <= sm) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a cubin for sm_", cubin_sm, " does not run on ", target));
}

absl::StatusOr<std::vector<EntryFacts>> EntriesOf(const CompilePlan& plan) {
  ASSIGN_OR_RETURN(const CubinModule module, ReadCubin(plan.source_name, plan.source_text));
  const absl::Status runs = CheckCubinTarget(module.sm, plan.target);
  if (!runs.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(plan.source_name, ": ", runs.message()));
  }
  std::vector<EntryFacts> entries;
  for (const std::string& wanted : plan.entries) {
    const auto entry = std::find_if(module.entries.begin(), module.entries.end(),
                                    [&](const EntryFacts& known) { return known.name == wanted; });
    if (entry == module.entries.end()) {
      const auto append = [](std::string* out, const EntryFacts& known) { *out += known.name; };
      return absl::InvalidArgumentError(absl::StrCat(
          plan.source_name, ": no kernel '", wanted, "'; it has: ",
          module.entries.empty() ? "none" : absl::StrJoin(module.entries, ", ", append)));
    }
    entries.push_back(*entry);
  }
  return entries;
}

class CubinCompiler : public Compiler {
 public:
  explicit CubinCompiler(std::vector<std::string> targets) : targets_(std::move(targets)) {}

  Language language() const override { return Language::kCubin; }
  std::string Version() const override { return "as it is"; }
  std::vector<std::string> Targets() const override { return targets_; }

  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override {
    absl::StatusOr<std::vector<EntryFacts>> entries = EntriesOf(plan);
    if (!entries.ok()) {
      return Refused(Outcome::kCompileFailed, std::string(entries.status().message()));
    }
    Artifact artifact;
    artifact.binary = plan.source_text;
    artifact.entries = *std::move(entries);
    for (const CompileSymbol& symbol : plan.symbols) {
      artifact.symbols.push_back({.variable = symbol.variable, .symbol = symbol.variable});
    }
    DescribeBinary(artifact);
    return artifact;
  }

 private:
  const std::vector<std::string> targets_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> MakeCubinCompiler() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Compiler> nvrtc, MakeNvrtcCompiler());
  return std::make_unique<CubinCompiler>(nvrtc->Targets());
}

}  // namespace tune::cuda
