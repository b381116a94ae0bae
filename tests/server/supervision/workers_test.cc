// SPDX-License-Identifier: Apache-2.0
// The installed compile workers, inside their walls.
#include "server/supervision/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/measure/compile_check.h"
#include "server/supervision/machine_code.h"
#include "tests/server/supervision/scripted.h"
#include "tests/server/supervision/small_kernel.h"
#include "tests/tuner/device/example.h"
#include "tuner/bundle.h"

namespace tune::server {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// The most memory this process has ever had.
int64_t PeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

int64_t BytesUnder(const std::string& dir) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() { Start({}); }
  void Start(WorkersOptions options) {
    options.state_dir = dir_ / "state";
    options.worker_dir = WORKER_DIR;
    workers_ = Workers::Create(options).value();
  }
  Artifact Compile(const std::string& target, const std::string& source) {
    CompilePool* pool = workers_->compilers().PoolFor(Language::kCuda, target).value();
    absl::StatusOr<CompileResult> result = pool->Compile(
        {.target = target, .source_name = "a.cu", .source_text = source, .entries = {"k"}}, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->artifact : Artifact{};
  }
  // Tries to read files of the host through the compiler.
  void ExpectNoWayOut(const std::string& target) {
    const std::string kernel = "extern \"C\" __global__ void k() {}\n";
    const std::string secret = dir_ / "secret.h";
    std::ofstream(secret) << "the_secret_of_this_host\n";
    const std::string climb = "../../../../../../../../../../..";
    for (const std::string& path : {secret, climb + secret, std::string("/etc/passwd")}) {
      const Artifact read = Compile(target, "#include \"" + path + "\"\n" + kernel);
      EXPECT_NE(read.outcome, Outcome::kOk) << path;
      EXPECT_THAT(read.log, Not(HasSubstr("the_secret_of_this_host"))) << path;
      EXPECT_THAT(read.log, Not(HasSubstr("root:"))) << path;
      const Artifact probe = Compile(
          target, "#if __has_include(\"" + path + "\")\n#error there it is\n#endif\n" + kernel);
      EXPECT_THAT(probe.log, Not(HasSubstr("there it is"))) << path;
    }
  }
  // Compiles every variant of the small kernel for a target.
  struct CompileReport {
    uint64_t compiled = 0;
    uint64_t done = 0;
    std::vector<std::pair<std::string, std::string>> found;  // variant, message
  };
  absl::StatusOr<CompileReport> CompileAll(const std::string& faults, const std::string& target) {
    const std::shared_ptr<const Kernel> kernel = SmallKernel(faults).value();
    const TargetTraits traits = TargetTraitsFor(target).value();
    const Problem problem = kernel->MakeProblem({}, "", target).value();
    const Space space = kernel->MakeSpace(problem, traits).value();
    std::vector<Config> configs;
    for (uint64_t i = 0; i < space.size(); ++i) configs.push_back(space.At(i));
    CompileReport report;
    const CompileHooks hooks = {
        .found = [&](const std::string& variant,
                     const std::string& message) { report.found.emplace_back(variant, message); },
        .progress = [&](uint64_t done) { report.done = done; }};
    const absl::StatusOr<uint64_t> compiled =
        CompileOnly(*kernel, problem, traits, configs, workers_->compilers(), hooks);
    if (!compiled.ok()) return compiled.status();
    report.compiled = *compiled;
    EXPECT_EQ(report.done, configs.size());
    return report;
  }

  TempDir dir_;
  std::unique_ptr<Workers> workers_;
};

TEST_F(WorkersTest, ADeviceThatIsNotThereIsNamedWithThoseThatAre) {
  const absl::Status status = workers_->FindDevice("cuda:99").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cpu"));
  EXPECT_EQ(workers_->FindDevice("cpu").value()->id(), "cpu");
}

#ifdef TUNE_CPU
// Each act that a wall is to prevent was attempted inside the worker, and failed.
TEST_F(WorkersTest, EveryWallStands) {
  ASSERT_TRUE(workers_->compilers().Info(Language::kCuda, "cpu").ok());
  ASSERT_TRUE(workers_->FindDevice("cpu").value()->Inspect().ok());
#ifdef TUNE_CUDA
  ASSERT_TRUE(workers_->compilers().Info(Language::kCuda, "sm_90a").ok());
  const size_t triton = workers_->compilers().Info(Language::kTriton, "sm_90a").ok() ? 1 : 0;
#endif
  const std::vector<v1::WorkerWalls> all = workers_->walls().All();
#ifdef TUNE_CUDA
  EXPECT_THAT(all, SizeIs(3 + triton));
#else
  EXPECT_THAT(all, SizeIs(2));
#endif
  for (const v1::WorkerWalls& walls : all) {
    EXPECT_EQ(MissingWalls(walls), "") << walls.worker();
    EXPECT_GE(walls.walls_size(), 10) << walls.worker();
  }
}

TEST_F(WorkersTest, CompilesForTheCpuInsideItsWalls) {
  absl::StatusOr<CompilerInfo> info = workers_->compilers().Info(Language::kCuda, "cpu");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_THAT(info->targets, Contains("cpu"));
  absl::StatusOr<CompileReport> report = CompileAll("[0]", "cpu");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->compiled, 6u);
  EXPECT_THAT(report->found, SizeIs(0)) << report->found[0].second;
}

// A single line of source that compiles to 240 MiB.
TEST_F(WorkersTest, AnObjectFileOfHundredsOfMegabytesNeverReachesTheDaemon) {
  const int64_t before = PeakBytes();
  const Artifact variant =
      Compile("cpu",
              "__device__ char big[240 << 20] = {1}; extern \"C\" __global__ void k(char* y) { "
              "*y = big[threadIdx.x]; }");
  EXPECT_EQ(variant.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(variant.log, AnyOf(HasSubstr("start tunerd with a larger --binary-bytes"),
                                 HasSubstr("the compiler was ended"), HasSubstr("File size limit"),
                                 HasSubstr("File too large")));
  EXPECT_LT(PeakBytes() - before, int64_t{32} << 20);
  EXPECT_LT(BytesUnder(dir_ / "state"), int64_t{1} << 20) << "nothing of it stays on the disk";
}

TEST_F(WorkersTest, WhatAKilledDaemonsWorkersLeftIsRemoved) {
  const std::string left = dir_ / "state/scratch/tune-compile-cpu/7/left";
  std::filesystem::create_directories(left);
  workers_.reset();
  Start({});
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(WorkersTest, ACpuSourceReadsNoFileOfTheHost) { ExpectNoWayOut("cpu"); }
#endif

#ifdef TUNE_CUDA
TEST_F(WorkersTest, CompilesForGpusInsideItsWallsWithoutOne) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    absl::StatusOr<CompileReport> report = CompileAll("[0, 1]", target);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->compiled, 6u);
    ASSERT_THAT(report->found, SizeIs(1));
    EXPECT_THAT(report->found[0].first, HasSubstr("FAULT=1"));
    EXPECT_THAT(report->found[0].second, HasSubstr("this does not compile"));
  }
}

TEST_F(WorkersTest, AGpuSourceReadsNoFileOfTheHost) { ExpectNoWayOut("sm_90a"); }

// Three lines of templates that would keep NVRTC busy for minutes.
TEST_F(WorkersTest, ACompileBombIsStoppedAtTheDeadline) {
  Start({.compile_deadline = absl::Seconds(6)});
  const std::string bomb = R"(
template <int N, long long K> struct T {
  static const int v = T<N - 1, 2 * K>::v + T<N - 1, 2 * K + 1>::v;
};
template <long long K> struct T<0, K> { static const int v = 1; };
extern "C" __global__ void k(int* y) { *y = T<22, 1>::v; })";
  const Artifact variant = Compile("sm_90a", bomb);
  EXPECT_TRUE(variant.outcome == Outcome::kCompileTimeout ||
              variant.outcome == Outcome::kCompileFailed)
      << ToText(variant.outcome);
  EXPECT_EQ(Compile("sm_90a", "extern \"C\" __global__ void k() {}").outcome, Outcome::kOk);
}

TEST_F(WorkersTest, AGpuWithoutADriverIsASentence) {
  DeviceSupervisor* device = workers_->FindDevice("cuda:0").value();
  const absl::Status opened = device->Open();
  if (opened.ok()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(opened.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device->Status().state, DeviceState::kUnavailable);
  EXPECT_NE(device->Status().message, "");
}

TEST_F(WorkersTest, CompilersAreFoundByLanguageAndTarget) {
  CompilePool* pool = workers_->compilers().PoolFor(Language::kPtx, "sm_90a").value();
  EXPECT_EQ(pool, workers_->compilers().PoolFor(Language::kCuda, "sm_90a").value());
  const absl::StatusOr<CompilerInfo> ptx = pool->Info(Language::kPtx);
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_THAT(ptx->targets, Contains("sm_90a"));
  EXPECT_NE(ptx->version, pool->Info(Language::kCuda)->version);
  const absl::StatusOr<CompileResult> compiled = pool->Compile(
      {.language = Language::kPtx,
       .target = "sm_90a",
       .source_name = "k.ptx",
       .source_text = ".version 7.8\n.target sm_70\n.address_size 64\n.entry k() { ret; }\n",
       .entries = {"k"}},
      {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->artifact.outcome, Outcome::kOk) << compiled->artifact.log;
  const absl::Status none = workers_->compilers().PoolFor(Language::kPtx, "cpu").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(std::string(none.message()),
            "nothing compiles PTX for cpu; what can be compiled: CUDA C++ for the CPU device; "
            "CUDA C++, PTX, cubin for GPUs; Triton, TTIR for GPUs; NumPy for the CPU device");
}

constexpr char kTritonFunction[] = R"python(
import triton
import triton.language as tl


@triton.jit
def k(x, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(x + at, tl.load(x + at) * 2)
)python";

constexpr char kTritonAttempts[] = R"python(
import mmap
import os
import socket
import subprocess


def open_any(pid):
    for number in range(32):
        for mode in (os.O_RDONLY, os.O_WRONLY):
            try:
                return os.open(f"/proc/{pid}/fd/{number}", mode | os.O_NONBLOCK)
            except OSError:
                pass
    raise OSError("none")


def gets_out(act):
    try:
        act()
    except OSError:
        return False
    return True


WAYS = {
    "read passwords": lambda: open("/etc/passwd").read(),
    "read the daemon's": lambda: open("SECRET").read(),
    "list the daemon's": lambda: os.listdir("FOLDER"),
    "write beside it": lambda: open("FOLDER/file", "w"),
    "use the network": lambda: socket.socket(),
    "run a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
    "signal the daemon": lambda: os.kill(DAEMON, 0),
    "open the worker's files": lambda: os.listdir(f"/proc/{os.getppid()}/fd"),
    "open its parent's pipes": lambda: open_any(os.getppid()),
    "read its parent's memory": lambda: open(f"/proc/{os.getppid()}/mem", "rb"),
    "signal its parent": lambda: os.kill(os.getppid(), 0),
    "list its own files": lambda: os.listdir("/proc/self/fd"),
    "read a request of others": lambda: os.read(3, 1),
    "see the host's connections": lambda: open("/proc/self/net/tcp"),
    "make memory files": lambda: os.memfd_create("file"),
    "share memory": lambda: mmap.mmap(-1, 4096, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
    "hide a file": lambda: os.open(os.environ["TMPDIR"], os.O_TMPFILE | os.O_WRONLY),
    "remove a file": lambda: os.remove(os.path.join(os.environ["TMPDIR"], "log")),
}
out = [way for way, act in WAYS.items() if gets_out(act)]
assert not out, "it could " + ", ".join(out)
)python";

// Without it a test is skipped, and under `./check triton` it fails.
absl::StatusOr<CompilerInfo> TritonOf(const Compilers& compilers) {
  absl::StatusOr<CompilerInfo> info = compilers.Info(Language::kTriton, "sm_90a");
  if (!info.ok() && getenv("TUNE_TRITON_REQUIRED") != nullptr) ADD_FAILURE() << info.status();
  return info;
}

ProgramPlan TritonProgram(const std::string& source) {
  ProgramPlan program;
  program.compile = {
      .language = Language::kTriton,
      .target = "sm_90a",
      .source_name = "k.py",
      .source_text = source,
      .defines = {{"SIZE", "256"}},
      .options = {"num_warps=4", "num_ctas=1", "num_stages=3", "enable_fp_fusion=True"},
      .entries = {"k"},
      .arguments = {{"x", "*fp32", 16}}};
  program.steps.push_back({.launch = {.entry = "k", .grid = {4, 1, 1}},
                           .args = {BufferPlan{.name = "x", .count = 1024, .role = Role::kInOut}}});
  return program;
}

TEST_F(WorkersTest, TritonRunsASourceWithinWallsAndCompilesWhatItMade) {
  const Compilers& compilers = workers_->compilers();
  const absl::StatusOr<CompilerInfo> info = TritonOf(compilers);
  if (!info.ok()) GTEST_SKIP() << info.status();
  EXPECT_THAT(info->version, testing::MatchesRegex("Triton 3\\..*, ptxas 1.*"));
  EXPECT_EQ(info->version, compilers.Info(Language::kTtir, "sm_90a")->version);

  const std::string folder = dir_ / "daemon";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/secret") << "the secret of this host";
  const std::string attempts = absl::StrReplaceAll(
      kTritonAttempts,
      {{"SECRET", folder + "/secret"}, {"FOLDER", folder}, {"DAEMON", absl::StrCat(getpid())}});
  const ProgramPlan program = TritonProgram(attempts + kTritonFunction);
  const CompileResult result = compilers.Compile(program, {}).value();
  ASSERT_EQ(result.artifact.outcome, Outcome::kOk) << result.artifact.log;
  EXPECT_FALSE(result.cached);
  // Once and again, a step is launched as was compiled.
  EXPECT_EQ(result.steps.at(0).launch.block[0], 128);
  EXPECT_EQ(result.steps.at(0).args.size(), 3u);
  EXPECT_EQ(program.steps.at(0).args.size(), 1u);
  const CompileResult known =
      compilers.Compile({.compile = program.compile, .steps = result.steps}, {}).value();
  EXPECT_TRUE(known.cached);
  EXPECT_EQ(StepsKey(known.steps), StepsKey(result.steps));
  // The result for the same function is found again wherever the function stands in its source.
  const CompileResult again = compilers.Compile(TritonProgram(kTritonFunction), {}).value();
  ASSERT_EQ(again.artifact.outcome, Outcome::kOk) << again.artifact.log;
  EXPECT_EQ(again.artifact.binary, result.artifact.binary);
  EXPECT_EQ(compilers.worker_restarts(), 0u);
}

// Compiles one of the examples at its default config, with its reference.
CompileResult CompileExample(const Compilers& compilers, const std::string& name,
                             const std::string& target) {
  const absl::StatusOr<std::shared_ptr<const Kernel>> kernel = ReadExample(name);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  const TargetTraits traits = TargetTraitsFor(target).value();
  const Problem problem = (*kernel)->MakeProblem({}, "", target).value();
  const Config config = (*kernel)->DefaultConfig(problem, traits).value();
  const ProgramPlan program = (*kernel)->PlanProgram(problem, traits, config).value();
  CompileResult result = compilers.Compile(program, {}).value();
  EXPECT_EQ(result.artifact.outcome, Outcome::kOk) << target << ": " << result.artifact.log;
  return result;
}

TEST_F(WorkersTest, TritonHasStepsAndDescriptorsOfTheHost) {
  const Compilers& compilers = workers_->compilers();
  if (const auto info = TritonOf(compilers); !info.ok()) GTEST_SKIP() << info.status();
  for (const std::string target : {"sm_80", "sm_90a", "sm_100a"}) {
    const CompileResult steps = CompileExample(compilers, "triton_steps/column_sums", target);
    ASSERT_EQ(steps.steps.size(), 2u);
    EXPECT_EQ(steps.steps[1].launch.entry, "all_sums");
    EXPECT_EQ(steps.steps[1].launch.unit, 1);
    EXPECT_EQ(steps.steps[1].launch.block[0], 128);
    EXPECT_EQ(Unbundle(steps.artifact.binary)->size(), 2u);

    const CompileResult result = CompileExample(compilers, "triton_descriptors/matmul", target);
    ASSERT_EQ(result.steps.size(), 1u);
    const bool is_map = std::holds_alternative<TensorMapPlan>(result.steps[0].args.at(0));
    EXPECT_EQ(is_map, target != "sm_80");
  }
  EXPECT_EQ(compilers.worker_restarts(), 0u);
}

TEST_F(WorkersTest, ATritonSourceThatHangsOrLeavesProcessesIsAnOutcome) {
  Start({.compile_deadline = absl::Seconds(20)});
  const Compilers& compilers = workers_->compilers();
  if (const auto info = TritonOf(compilers); !info.ok()) GTEST_SKIP() << info.status();
  const CompileResult left =
      compilers
          .Compile(TritonProgram("import os, time\nif os.fork() == 0:\n    os.closerange(0, 64)\n"
                                 "    time.sleep(600)\n" +
                                 std::string(kTritonFunction)),
                   {})
          .value();
  EXPECT_EQ(left.artifact.outcome, Outcome::kCompileFailed);
  EXPECT_THAT(left.artifact.log, HasSubstr("left processes running"));
  const CompileResult hung =
      compilers.Compile(TritonProgram("while True:\n    pass\n"), {}).value();
  EXPECT_EQ(hung.artifact.outcome, Outcome::kCompileTimeout);
  EXPECT_EQ(compilers.Compile(TritonProgram(kTritonFunction), {})->artifact.outcome, Outcome::kOk);
}

TEST_F(WorkersTest, WithoutTritonOnlyItsKernelsCannotBeCompiled) {
  Start({.triton_python = "/bin/false"});
  const absl::Status none = workers_->compilers().Info(Language::kTriton, "sm_90a").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.message()), HasSubstr("/bin/false does not run"));
  EXPECT_EQ(Compile("sm_90a", "extern \"C\" __global__ void k() {}").outcome, Outcome::kOk);
  for (const LanguageCompiler& compiler : workers_->compilers().Languages("sm_90a")) {
    const bool triton =
        compiler.language == Language::kTriton || compiler.language == Language::kTtir;
    EXPECT_EQ(compiler.info.ok(), !triton) << ToText(compiler.language);
  }
}
#else
TEST_F(WorkersTest, WithoutCudaATargetOfItIsASentence) {
  const absl::Status status = workers_->compilers().PoolFor(Language::kCuda, "sm_90a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("TUNE_CUDA=ON"));
}
#endif

}  // namespace
}  // namespace tune::server
