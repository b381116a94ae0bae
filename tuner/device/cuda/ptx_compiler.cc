// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/ptx_compiler.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/ptx_linker.h"
#include "tuner/device/cuda/ptx_module.h"
#include "tuner/device/ptxas_log.h"

namespace tune::cuda {
namespace {

class PtxCompiler : public Compiler {
 public:
  PtxCompiler(std::optional<PtxLinker> linker, std::vector<std::string> targets)
      : linker_(std::move(linker)), targets_(std::move(targets)) {}

  Language language() const override { return Language::kPtx; }
  std::string Version() const override { return linker_ ? linker_->Version() : "driver"; }
  std::vector<std::string> Targets() const override { return targets_; }
  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override;

 private:
  // The facts of the plan's entries, in their order.
  static absl::StatusOr<std::vector<EntryFacts>> EntriesOf(const CompilePlan& plan);
  Artifact Link(const CompilePlan& plan) const;

  const std::optional<PtxLinker> linker_;
  const std::vector<std::string> targets_;
};

absl::StatusOr<std::vector<EntryFacts>> PtxCompiler::EntriesOf(const CompilePlan& plan) {
  ASSIGN_OR_RETURN(const PtxModule module, ReadPtx(plan.source_name, plan.source_text));
  const absl::Status runs = CheckPtxTarget(module.target, plan.target);
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
          plan.source_name, ": no .entry '", wanted, "'; it has: ",
          module.entries.empty() ? "none" : absl::StrJoin(module.entries, ", ", append)));
    }
    entries.push_back(*entry);
  }
  return entries;
}

Artifact PtxCompiler::Link(const CompilePlan& plan) const {
  Artifact artifact;
  if (!linker_.has_value()) {
    artifact.binary = plan.source_text;
    return artifact;
  }
  PtxLinker::Result linked = linker_->Link(plan.source_name, plan.source_text, plan.target);
  if (linked.cubin.empty()) return Refused(Outcome::kCompileFailed, std::move(linked.log));
  artifact.binary = std::move(linked.cubin);
  for (const std::string& entry : plan.entries) {
    AddResources(ParsePtxasLog(linked.log, entry), artifact.resources);
  }
  artifact.log = std::move(linked.log);
  return artifact;
}

absl::StatusOr<Artifact> PtxCompiler::Compile(const CompilePlan& plan) {
  if (std::find(targets_.begin(), targets_.end(), plan.target) == targets_.end()) {
    return Refused(Outcome::kInvalidConfig,
                   absl::StrCat("PTX is not compiled for '", plan.target, "'"));
  }
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<EntryFacts>> entries = EntriesOf(plan);
  if (!entries.ok()) {
    return Refused(Outcome::kCompileFailed, std::string(entries.status().message()));
  }
  Artifact artifact = Link(plan);
  if (artifact.outcome != Outcome::kOk) return artifact;
  artifact.entries = *std::move(entries);
  for (const CompileSymbol& symbol : plan.symbols) {
    artifact.symbols.push_back({.variable = symbol.variable, .symbol = symbol.variable});
  }
  DescribeBinary(artifact);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  artifact.seconds = elapsed.count();
  return artifact;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> MakePtxCompiler(const Toolkit& toolkit) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Compiler> nvrtc, MakeNvrtcCompiler(toolkit));
  absl::StatusOr<PtxLinker> linker = PtxLinker::Load(toolkit);
  std::optional<PtxLinker> found;
  if (linker.ok()) found = *std::move(linker);
  return std::make_unique<PtxCompiler>(std::move(found), nvrtc->Targets());
}

absl::StatusOr<std::unique_ptr<Compiler>> MakePtxCompiler() {
  ASSIGN_OR_RETURN(Toolkit toolkit, FindToolkit());
  return MakePtxCompiler(toolkit);
}

}  // namespace tune::cuda
