// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/kernel_check.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/kernels/check_findings.h"
#include "server/kernels/kernel_source.h"
#include "server/kernels/source_findings.h"
#include "server/measure/compile_check.h"
#include "server/wire/nouns.h"
#include "server/wire/spec.h"

namespace tune::server {
namespace {

constexpr uint64_t kVariantsMax = 4096;  // of a check of the whole space
constexpr absl::Duration kTellEvery = absl::Milliseconds(200);

// Kernel::Create says "softmax.textproto:12:9: what is wrong": the place is apart on the wire.
void AddSpecFinding(const std::string& spec_name, absl::string_view message,
                    CheckFindings& findings) {
  const size_t colon = message.find(": ");
  if (absl::StartsWith(message, spec_name) && colon != absl::string_view::npos) {
    findings.AddAt(std::string(message.substr(0, colon)), std::string(message.substr(colon + 2)));
  } else {
    findings.AddAt(spec_name, std::string(message));
  }
}

absl::StatusOr<std::vector<Config>> ConfigsToCompile(const Kernel& kernel, const Problem& problem,
                                                     const TargetTraits& traits, bool all,
                                                     SpaceSolver& solver,
                                                     const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(Space space, solver.MakeSpace(kernel, problem, traits, cancelled));
  if (!all) {
    ASSIGN_OR_RETURN(Config config, kernel.DefaultConfig(problem, traits));
    return std::vector<Config>{std::move(config)};
  }
  if (space.size() > kVariantsMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the space has ", space.size(),
                                                     " configs, too many to compile each; at most ",
                                                     kVariantsMax));
  }
  std::vector<Config> configs;
  for (uint64_t i = 0; i < space.size(); ++i) configs.push_back(space.At(i));
  return configs;
}

// Tells how far a target's compiles are, not oftener than people read.
class Progress {
 public:
  Progress(const TellProgress& tell, const CheckFindings& findings, const std::string& target,
           uint64_t total)
      : tell_(tell), findings_(findings) {
    proto_.set_target(target);
    proto_.set_total(total);
  }

  void At(uint64_t done) {
    const absl::Time now = SteadyNow();
    if (now - told_ < kTellEvery && done != proto_.total()) return;
    told_ = now;
    proto_.set_done(done);
    proto_.set_errors(findings_.errors());
    if (tell_) tell_(proto_);
  }

 private:
  const TellProgress& tell_;
  const CheckFindings& findings_;
  v1::CheckProgress proto_;
  absl::Time told_ = absl::InfinitePast();
};

// False if there is no kernel to compile.
absl::StatusOr<bool> AddSourceFindings(const Kernel& kernel, const Problem& problem,
                                       const TargetTraits& traits, CheckFindings& findings) {
  ASSIGN_OR_RETURN(const std::vector<SourceFinding> found, CheckSource(kernel, problem, traits));
  bool has_entries = true;
  for (const SourceFinding& finding : found) {
    findings.AddAt("", finding.message,
                   finding.certain ? v1::CHECK_SEVERITY_ERROR : v1::CHECK_SEVERITY_WARNING);
    has_entries = has_entries && !finding.of_entry;
  }
  return has_entries;
}

absl::StatusOr<uint64_t> CheckTarget(const Kernel& kernel, const std::string& target,
                                     const v1::CheckKernelRequest& request, Workers& workers,
                                     SpaceSolver& solver, const CheckHooks& hooks,
                                     CheckFindings& findings) {
  ASSIGN_OR_RETURN(TargetTraits traits, TargetTraitsFor(target));
  RETURN_IF_ERROR(kernel.WhyNotOn(target));
  const std::map<std::string, int64_t> dims(request.dims().begin(), request.dims().end());
  ASSIGN_OR_RETURN(Problem problem, kernel.MakeProblem(dims, request.dtype(), target));
  ASSIGN_OR_RETURN(const bool has_entries, AddSourceFindings(kernel, problem, traits, findings));
  if (!has_entries) return 0;
  ASSIGN_OR_RETURN(
      std::vector<Config> configs,
      ConfigsToCompile(kernel, problem, traits, request.all_variants(), solver, hooks.cancelled));
  // The default is the reference of many kernels, so that it must be in the space.
  if (const absl::Status status = kernel.DefaultConfig(problem, traits).status(); !status.ok()) {
    findings.AddCompile(target, "", std::string(status.message()));
  }
  Progress progress(hooks.progress, findings, target, configs.size());
  progress.At(0);
  return CompileOnly(
      kernel, problem, traits, configs, workers.compilers(),
      {.found = [&](const std::string& variant,
                    const std::string& message) { findings.AddCompile(target, variant, message); },
       .progress = [&](uint64_t done) { progress.At(done); }},
      hooks.cancelled);
}

// Every target that was asked for, or that this host can compile for.
std::set<std::string> TargetsOf(const v1::CheckKernelRequest& request, const Kernel& kernel,
                                Workers& workers) {
  std::set<std::string> targets(request.targets().begin(), request.targets().end());
  if (!targets.empty()) return targets;
  for (const std::string& target : workers.compilers().Targets(kernel.language())) {
    if (kernel.RunsOn(target)) targets.insert(target);
  }
  return targets;
}

}  // namespace

v1::Kernel ToProto(const Kernel& kernel, const std::set<std::string>& targets,
                   const std::map<std::string, int64_t>& dims, const std::string& dtype,
                   SpaceSolver& solver, const Cancelled& cancelled) {
  v1::Kernel proto;
  *proto.mutable_spec() = ToProto(kernel.spec());
  proto.set_hash(kernel.hash());
  for (const std::string& target : targets) {
    if (!kernel.RunsOn(target)) continue;
    absl::StatusOr<TargetTraits> traits = TargetTraitsFor(target);
    absl::StatusOr<Problem> problem = kernel.MakeProblem(dims, dtype, target);
    if (!traits.ok() || !problem.ok()) continue;
    absl::StatusOr<Space> space = solver.MakeSpace(kernel, *problem, *traits, cancelled);
    if (space.ok()) (*proto.mutable_space_sizes())[target] = space->size();
    absl::StatusOr<Config> config = kernel.DefaultConfig(*problem, *traits);
    if (config.ok()) (*proto.mutable_default_configs())[target] = ToProto(*config);
  }
  return proto;
}

absl::Status CheckKernel(const v1::CheckKernelRequest& request, const std::string& name_space,
                         const Catalogue& catalogue, Workers& workers, SpaceSolver& solver,
                         const CheckHooks& hooks, v1::CheckKernelResponse& response) {
  for (const std::string& target : request.targets()) {
    RETURN_IF_ERROR(TargetTraitsFor(target).status());
  }
  CheckFindings findings;
  NamedKernel named;
  if (request.kernel_case() == v1::CheckKernelRequest::kKernelSource) {
    const v1::KernelSource& source = request.kernel_source();
    absl::StatusOr<NamedKernel> parsed = ParseKernelSource(source, name_space);
    if (!parsed.ok()) {
      AddSpecFinding(source.spec_name(), parsed.status().message(), findings);
      findings.Write(response);
      return absl::OkStatus();
    }
    named = *std::move(parsed);
  } else {
    ASSIGN_OR_RETURN(named, catalogue.Find(request.kernel_name()));
  }

  const std::set<std::string> targets = TargetsOf(request, *named.kernel, workers);
  if (targets.empty()) {
    findings.AddAt(named.spec_name, "no target of the kernel can be compiled for on this host");
  }
  const std::map<std::string, int64_t> dims(request.dims().begin(), request.dims().end());
  *response.mutable_kernel() =
      ToProto(*named.kernel, targets, dims, request.dtype(), solver, hooks.cancelled);
  for (const std::string& target : targets) {
    const absl::StatusOr<uint64_t> compiled =
        CheckTarget(*named.kernel, target, request, workers, solver, hooks, findings);
    if (absl::IsCancelled(compiled.status())) return compiled.status();
    if (compiled.ok()) {
      (*response.mutable_compiled())[target] = *compiled;
    } else {
      findings.AddCompile(target, "", std::string(compiled.status().message()));
    }
  }
  findings.Write(response);
  return absl::OkStatus();
}

}  // namespace tune::server
