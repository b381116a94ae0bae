// SPDX-License-Identifier: Apache-2.0
#include "server/worker/compile_worker.h"

#include <stdio.h>
#include <sys/resource.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/worker/arguments.h"
#include "server/worker/convert.h"
#include "server/worker/serve.h"
#include "server/worker/wall_trial.h"
#include "server/worker/walls.h"

namespace tune::server {
namespace {

// A second wall behind the daemon's deadline, for a worker that the daemon has lost.
constexpr int64_t kCpuSecondsPerCompile = 300;
// The device worker must get a core at once, however much is being compiled.
constexpr int kNiceness = 10;

class CompileWorker {
 public:
  CompileWorker(absl::StatusOr<std::unique_ptr<Compiler>> compiler, const Walls& walls,
                const WorkerArguments& arguments)
      : compiler_(std::move(compiler)),
        walls_(walls),
        binary_bytes_max_(static_cast<size_t>(arguments.binary_bytes_max)),
        log_bytes_max_(static_cast<size_t>(arguments.log_bytes_max)) {}

  worker::v1::WorkerReply Handle(const worker::v1::WorkerRequest& request) {
    worker::v1::WorkerReply reply;
    if (request.has_try_walls()) {
      *reply.mutable_walls() =
          TryWalls(walls_, request.try_walls().planted_file(), request.try_walls().daemon_pid());
    } else if (!compiler_.ok()) {
      SetStatus(compiler_.status(), reply);
    } else if (request.has_hello()) {
      worker::v1::HelloReply* hello = reply.mutable_hello();
      hello->set_compiler_version((*compiler_)->Version());
      for (const std::string& target : (*compiler_)->Targets()) hello->add_targets(target);
      hello->set_walls_missing(walls_.missing());
    } else if (request.has_compile()) {
      Compile(FromWire(request.compile()), reply);
    } else {
      SetStatus(absl::UnimplementedError("a compile worker compiles"), reply);
    }
    return reply;
  }

 private:
  void Compile(const CompilePlan& plan, worker::v1::WorkerReply& reply) {
    LimitCpuSeconds(kCpuSecondsPerCompile);
    absl::StatusOr<CompiledVariant> variant = (*compiler_)->Compile(plan);
    if (!variant.ok()) {
      SetStatus(variant.status(), reply);
    } else if (variant->binary.size() > binary_bytes_max_) {
      SetStatus(absl::ResourceExhaustedError(absl::StrCat(
                    "the compiled binary has ", variant->binary.size(), " bytes, more than the ",
                    binary_bytes_max_,
                    " that the daemon takes; make initialised arrays of the source smaller, or "
                    "start tunerd with a larger --binary-bytes")),
                reply);
    } else {
      CutLog(variant->log);
      *reply.mutable_compiled() = ToWire(*std::move(variant));
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

  const absl::StatusOr<std::unique_ptr<Compiler>> compiler_;
  const Walls& walls_;
  const size_t binary_bytes_max_;
  const size_t log_bytes_max_;
};

}  // namespace

int RunCompileWorker(int argc, char** argv, WorkerRole role, const CompilerFactory& factory) {
  absl::StatusOr<WorkerArguments> arguments = ParseWorkerArguments(argc, argv);
  if (!arguments.ok()) {
    fprintf(stderr, "%s\n", arguments.status().ToString().c_str());
    return 2;
  }
  UseScratchDir(arguments->scratch_dir);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = factory();
  Walls walls(role, arguments->scratch_dir);
  walls.EncloseProcess();
  ExitWhenDaemonCloses(kWorkerFd);
  walls.EncloseCalls();
  CompileWorker worker(std::move(compiler), walls, *arguments);
  return ServeRequests(kWorkerFd, [&](const auto& request) { return worker.Handle(request); });
}

}  // namespace tune::server
