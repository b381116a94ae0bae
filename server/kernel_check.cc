// SPDX-License-Identifier: Apache-2.0
#include "server/kernel_check.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/convert.h"
#include "server/pool/compile_check.h"
#include "server/submission.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr uint64_t kVariantsMax = 4096;  // of a check of the whole space

void AddFinding(const std::string& where, absl::string_view message,
                v1::CheckKernelResponse& response) {
  v1::CheckFinding* finding = response.add_findings();
  finding->set_where(where);
  finding->set_message(Utf8(std::string(message)));
}

// Kernel::Create says "softmax.textproto:12:9: what is wrong": the place is apart on the wire.
void AddSpecFinding(const std::string& spec_name, absl::string_view message,
                    v1::CheckKernelResponse& response) {
  const size_t colon = message.find(": ");
  if (absl::StartsWith(message, spec_name) && colon != absl::string_view::npos) {
    AddFinding(std::string(message.substr(0, colon)), message.substr(colon + 2), response);
  } else {
    AddFinding(spec_name, message, response);
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

absl::Status CheckTarget(const Kernel& kernel, const std::string& target,
                         const v1::CheckKernelRequest& request, Workers& workers,
                         SpaceSolver& solver, const Cancelled& cancelled,
                         v1::CheckKernelResponse& response) {
  ASSIGN_OR_RETURN(TargetTraits traits, TargetTraitsFor(target));
  if (!kernel.RunsOn(target)) {
    return absl::InvalidArgumentError(absl::StrCat("the spec's targets leave it out: ",
                                                   absl::StrJoin(kernel.spec().targets(), ", ")));
  }
  const std::map<std::string, int64_t> dims(request.dims().begin(), request.dims().end());
  ASSIGN_OR_RETURN(Problem problem, kernel.MakeProblem(dims, request.dtype(), target));
  ASSIGN_OR_RETURN(
      std::vector<Config> configs,
      ConfigsToCompile(kernel, problem, traits, request.all_variants(), solver, cancelled));
  ASSIGN_OR_RETURN(CompilePool * pool, workers.PoolFor(target));
  ASSIGN_OR_RETURN(CompileReport report,
                   CompileOnly(kernel, problem, traits, configs, *pool, cancelled));
  (*response.mutable_compiled())[target] = report.compiled;
  for (const CompileFinding& finding : report.findings) {
    AddFinding(absl::StrCat(target, " ", finding.variant), finding.message, response);
  }
  return absl::OkStatus();
}

}  // namespace

v1::Kernel ToProto(const Kernel& kernel, const std::set<std::string>& targets,
                   const std::map<std::string, int64_t>& dims, const std::string& dtype,
                   SpaceSolver& solver, const Cancelled& cancelled) {
  v1::Kernel proto;
  *proto.mutable_spec() = kernel.spec();
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

absl::Status CheckKernel(const v1::CheckKernelRequest& request, const Catalogue& catalogue,
                         Workers& workers, SpaceSolver& solver, const Cancelled& cancelled,
                         v1::CheckKernelResponse& response) {
  NamedKernel named;
  if (request.kernel_case() == v1::CheckKernelRequest::kKernelSource) {
    const v1::KernelSource& source = request.kernel_source();
    absl::StatusOr<NamedKernel> parsed = ParseKernelSource(source);
    if (!parsed.ok()) {
      AddSpecFinding(source.spec_name(), parsed.status().message(), response);
      return absl::OkStatus();
    }
    named = *std::move(parsed);
  } else {
    ASSIGN_OR_RETURN(named, catalogue.Find(request.kernel_name()));
  }

  std::set<std::string> targets(request.targets().begin(), request.targets().end());
  if (targets.empty()) {
    for (const std::string& target : workers.Targets()) {
      if (named.kernel->RunsOn(target)) targets.insert(target);
    }
    if (targets.empty()) {
      AddFinding(named.spec_name, "no target of the kernel can be compiled for on this host",
                 response);
    }
  }
  const std::map<std::string, int64_t> dims(request.dims().begin(), request.dims().end());
  *response.mutable_kernel() =
      ToProto(*named.kernel, targets, dims, request.dtype(), solver, cancelled);
  for (const std::string& target : targets) {
    const absl::Status status =
        CheckTarget(*named.kernel, target, request, workers, solver, cancelled, response);
    if (absl::IsCancelled(status)) return status;
    if (!status.ok()) AddFinding(target, status.message(), response);
  }
  return absl::OkStatus();
}

}  // namespace tune::server
