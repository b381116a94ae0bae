// SPDX-License-Identifier: Apache-2.0
#include "server/worker/compile_worker.h"

#include <stdio.h>
#include <sys/resource.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/worker/arguments.h"
#include "server/worker/compile_units.h"
#include "server/worker/convert.h"
#include "server/worker/scratch.h"
#include "server/worker/serve.h"
#include "server/worker/wall_trial.h"
#include "server/worker/walls.h"

namespace tune::server {
namespace {

// A second wall behind the daemon's deadline, for a worker that the daemon has lost.
constexpr int64_t kCpuSecondsPerCompile = 300;
// The device worker must get a core at once, however much is being compiled.
constexpr int kNiceness = 10;

using Compilers = std::vector<std::unique_ptr<Compiler>>;

absl::StatusOr<Compilers> MakeAll(const std::vector<CompilerFactory>& factories,
                                  const absl::StatusOr<IncludeRoots>& include_roots) {
  RETURN_IF_ERROR(include_roots.status());
  Compilers compilers;
  for (const CompilerFactory& factory : factories) {
    ASSIGN_OR_RETURN(std::unique_ptr<Compiler> compiler, factory(*include_roots));
    compilers.push_back(std::move(compiler));
  }
  return compilers;
}

absl::StatusOr<IncludeRoots> RootsOf(const WorkerArguments& arguments) {
  IncludeRoots roots;
  for (const std::string& root : arguments.include_roots) RETURN_IF_ERROR(roots.Add(root));
  return roots;
}

class CompileWorker {
 public:
  CompileWorker(WorkerRole role, absl::StatusOr<Compilers> compilers, const Walls& walls,
                const WorkerArguments& arguments)
      : compilers_(std::move(compilers)),
        walls_(walls),
        runs_sources_(role == WorkerRole::kInterpreter),
        scratch_dir_(arguments.scratch_dir),
        binary_bytes_max_(static_cast<size_t>(arguments.binary_bytes_max)),
        log_bytes_max_(static_cast<size_t>(arguments.log_bytes_max)) {}

  worker::v1::WorkerReply Handle(const worker::v1::WorkerRequest& request) {
    worker::v1::WorkerReply reply;
    if (request.has_try_walls()) {
      *reply.mutable_walls() = TryWalls(walls_, request.try_walls());
      if (runs_sources_ && compilers_.ok()) TryAsSources(*reply.mutable_walls());
    } else if (!compilers_.ok()) {
      SetStatus(compilers_.status(), reply);
    } else if (request.has_hello()) {
      worker::v1::HelloReply* hello = reply.mutable_hello();
      for (const auto& compiler : *compilers_) *hello->add_compilers() = ToWire(*compiler);
      hello->set_walls_missing(walls_.missing());
    } else if (request.has_compile()) {
      Compile(FromWire(request.compile()), reply);
    } else {
      SetStatus(absl::UnimplementedError("a compile worker compiles"), reply);
    }
    return reply;
  }

 private:
  static worker::v1::Compiler ToWire(const Compiler& compiler) {
    worker::v1::Compiler proto;
    proto.set_language(static_cast<v1::Language>(compiler.language()));
    proto.set_version(compiler.Version());
    for (const std::string& target : compiler.Targets()) proto.add_targets(target);
    return proto;
  }

  // Sources run in processes of their own, whose walls are tried there.
  void TryAsSources(v1::WorkerWalls& walls) {
    v1::Wall& wall = *walls.add_walls();
    wall.set_name("sources");
    wall.set_state(v1::WALL_STATE_STANDS);
    for (const auto& compiler : *compilers_) {
      const absl::StatusOr<std::vector<std::string>> through = compiler->TryWalls();
      if (through.ok() && through->empty()) continue;
      wall.set_state(v1::WALL_STATE_MISSING);
      wall.set_note(through.ok() ? absl::StrCat("one could ", absl::StrJoin(*through, ", "))
                                 : std::string(through.status().message()));
    }
  }

  absl::StatusOr<Artifact> CompileIn(const CompilePlan& plan) {
    LimitCpuSeconds(kCpuSecondsPerCompile);
    if (runs_sources_ && !scratch_dir_.empty() && !EmptyFolder(scratch_dir_)) {
      return absl::UnavailableError("an earlier source left files that cannot be removed");
    }
    for (const auto& compiler : *compilers_) {
      if (compiler->language() == plan.language) return CompileUnits(*compiler, plan);
    }
    return absl::UnimplementedError(
        absl::StrCat("this worker has no compiler of ", ToText(plan.language)));
  }

  void Compile(const absl::StatusOr<CompilePlan>& plan, worker::v1::WorkerReply& reply) {
    absl::StatusOr<Artifact> artifact = plan.ok() ? CompileIn(*plan) : plan.status();
    if (!artifact.ok()) {
      SetStatus(artifact.status(), reply);
    } else if (artifact->binary.size() > binary_bytes_max_) {
      SetStatus(absl::ResourceExhaustedError(absl::StrCat(
                    "the compiled binary has ", artifact->binary.size(), " bytes, more than the ",
                    binary_bytes_max_,
                    " that the daemon takes; make initialised arrays of the source smaller, or "
                    "start tunerd with a larger --binary-bytes")),
                reply);
    } else {
      CutLog(artifact->log);
      *reply.mutable_compiled() = server::ToWire(*std::move(artifact));
    }
  }

  // The first errors are the ones that help.
  void CutLog(std::string& log) const {
    if (log.size() <= log_bytes_max_) return;
    const size_t bytes = log.size();
    log.resize(log_bytes_max_);
    absl::StrAppend(&log, "\n... (cut: of ", bytes, " bytes tunerd keeps ", log_bytes_max_,
                    ", see its --log-bytes)");
  }

  const absl::StatusOr<Compilers> compilers_;
  const Walls& walls_;
  const bool runs_sources_;  // and what one leaves behind, the next one must not find
  const std::string scratch_dir_;
  const size_t binary_bytes_max_;
  const size_t log_bytes_max_;
};

}  // namespace

int RunCompileWorker(int argc, char** argv, WorkerRole role,
                     const std::vector<CompilerFactory>& factories) {
  if (!JoinControlGroup()) return 2;
  absl::StatusOr<WorkerArguments> arguments = ParseWorkerArguments(argc, argv);
  if (!arguments.ok()) {
    fprintf(stderr, "%s\n", arguments.status().ToString().c_str());
    return 2;
  }
  UseScratchDir(arguments->scratch_dir);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  const absl::StatusOr<IncludeRoots> include_roots = RootsOf(*arguments);
  absl::StatusOr<Compilers> compilers = MakeAll(factories, include_roots);
  Walls walls(role, arguments->scratch_dir);
  if (include_roots.ok()) {
    for (const IncludeRoot& root : include_roots->all()) walls.Admit({.readable = {root.dir}});
  }
  if (compilers.ok()) {
    for (const auto& compiler : *compilers) walls.Admit(compiler->Files());
  }
  walls.EncloseProcess();
  ExitWhenDaemonCloses(kWorkerFd);
  walls.EncloseCalls();
  CompileWorker worker(role, std::move(compilers), walls, *arguments);
  return ServeRequests(kWorkerFd, [&](const auto& request) { return worker.Handle(request); });
}

}  // namespace tune::server
