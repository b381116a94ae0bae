// SPDX-License-Identifier: Apache-2.0
#include "server/worker/compile_worker.h"

#include <stdio.h>
#include <sys/resource.h>

#include <string>

#include "server/worker/arguments.h"
#include "server/worker/convert.h"
#include "server/worker/sandbox.h"
#include "server/worker/serve.h"

namespace tune::server {
namespace {

// Beyond any sane variant; straight-line code of 6000 statements takes NVRTC 3.6 GB.
constexpr int64_t kAddressSpaceBytesMax = int64_t{4} << 30;
constexpr int64_t kFileBytesMax = int64_t{1} << 30;
// A second wall behind the daemon's deadline, for a worker that the daemon has lost.
constexpr int64_t kCpuSecondsPerCompile = 300;
// The device worker must get a core at once, however much is being compiled.
constexpr int kNiceness = 10;

class CompileWorker {
 public:
  CompileWorker(absl::StatusOr<std::unique_ptr<Compiler>> compiler, std::string sandbox_note)
      : compiler_(std::move(compiler)), sandbox_note_(std::move(sandbox_note)) {}

  worker::v1::WorkerReply Handle(const worker::v1::WorkerRequest& request) {
    worker::v1::WorkerReply reply;
    if (!compiler_.ok()) {
      SetStatus(compiler_.status(), reply);
    } else if (request.has_hello()) {
      worker::v1::HelloReply* hello = reply.mutable_hello();
      hello->set_compiler_version((*compiler_)->Version());
      for (const std::string& target : (*compiler_)->Targets()) hello->add_targets(target);
      hello->set_sandbox_note(sandbox_note_);
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
    if (variant.ok()) {
      *reply.mutable_compiled() = ToWire(*variant);
    } else {
      SetStatus(variant.status(), reply);
    }
  }

  const absl::StatusOr<std::unique_ptr<Compiler>> compiler_;
  const std::string sandbox_note_;
};

}  // namespace

int RunCompileWorker(int argc, char** argv, CompilerKind kind, const CompilerFactory& factory) {
  absl::StatusOr<WorkerArguments> arguments = ParseWorkerArguments(argc, argv);
  if (!arguments.ok()) {
    fprintf(stderr, "%s\n", arguments.status().ToString().c_str());
    return 2;
  }
  UseScratchDir(arguments->scratch_dir);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  Sandbox sandbox = {.scratch_dir = arguments->scratch_dir,
                     .filter_calls = true,
                     .allow_exec = kind == CompilerKind::kProgram,
                     .address_space_bytes_max = kAddressSpaceBytesMax,
                     .file_bytes_max = kFileBytesMax};
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = factory();
  sandbox.read_dirs = LoadedLibraryDirs();
  std::string note = EnterSandbox(sandbox);
  ExitWhenDaemonCloses(kWorkerFd);
  CompileWorker worker(std::move(compiler), std::move(note));
  return ServeRequests(kWorkerFd, [&](const auto& request) { return worker.Handle(request); });
}

}  // namespace tune::server
