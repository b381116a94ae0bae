// SPDX-License-Identifier: Apache-2.0
// How calm a daemon stays under load: it starts one, asks it for its status, its health and a
// look-up two hundred times a second each, and meanwhile has it find eight spaces of eight params
// with 300 values each at once, again and again, cancel sweeps in every phase, and draw a gate
// again. Prints one JSON object: latencies without and with the load, the daemon's memory, and how
// long cancelling took.
#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tune/v1/gate.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/record.grpc.pb.h"
#include "tune/v1/server.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

extern char** environ;

namespace tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHuge = 8;
constexpr int kHugeParams = 8;
constexpr int kHugeValues = 300;
constexpr absl::Duration kProbePeriod = absl::Milliseconds(5);
constexpr absl::Duration kLimit = absl::Seconds(120);
constexpr uint32_t kStudyRounds = 24;
constexpr uint32_t kResampledRuns = 20000;

constexpr char kSpec[] = R"spec(name: "@name"
summary: "y = 3 x"
source: "scale.cu"
entry: "scale"
dims { name: "n" default_value: 65536 min: 1 max: 1048576 }
dtypes: "f32"
@params
args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, 64)" block: "64" }
work { flops: "n" bytes: "2 * n * dtype_bytes" peak: "f32" }
reference { entry: "scale_reference" dtype: "f64" launch { grid: "ceil_div(n, 64)" block: "64" } }
)spec";
constexpr char kSource[] = R"cu(
#ifdef TUNE_REFERENCE
extern "C" __global__ void scale_reference(const DTYPE* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0 * x[i];
}
#else
#ifndef HANGS
#define HANGS 0
#endif
extern "C" __global__ void scale(const DTYPE* x, DTYPE* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile int forever = HANGS;
  while (forever) {
  }
  if (i < n) y[i] = 3.0f * x[i];
}
#endif
)cu";

v1::KernelSource MakeKernel(const std::string& name, const std::string& params) {
  v1::KernelSource source;
  source.set_spec_name(name + ".textproto");
  source.set_spec_text(absl::StrReplaceAll(kSpec, {{"@name", name}, {"@params", params}}));
  (*source.mutable_files())["scale.cu"] = kSource;
  return source;
}

// Small, and alike: variants differ in a macro that is not used.
v1::KernelSource SmallKernel() {
  return MakeKernel("calm_small",
                    "params { name: \"A\" values: \"range(0, 200)\" "
                    "default_value: \"0\" }");
}

v1::KernelSource HangingKernel() {
  return MakeKernel("calm_hanging",
                    "params { name: \"HANGS\" values: \"[0, 1]\" default_value: \"1\" }\n"
                    "constraints { expression: \"HANGS == 1\" }");
}

// Wide in different ways: by sums, by products, by what scrambles all, and by groups.
v1::KernelSource HugeKernel(int which) {
  static const char* const kConstraints[] = {
      "P0 + P1 + P2 + P3 + P4 + P5 + P6 + P7 < 600",
      "P0 * P1 + P2 * P3 + P4 * P5 + P6 * P7 < 40000",
      "((((P0 * 40503 + P1) % 1000003 * 7919 + P2 * P3) % 1000003 * 31 + P4) % 1000003 + "
      "P5 * P6 * P7) % 97 == 3",
      "P0 * P1 % 7 == 3 and P2 * P3 % 11 == 5 and P4 * P5 % 13 == 1 and P6 * P7 % 17 == 2",
      "P0 * P1 * P2 + P3 * P4 * P5 + P6 * P7 < 900000",
      "(P0 + 2 * P1 + 3 * P2 + 4 * P3 + 5 * P4 + 6 * P5 + 7 * P6 + 8 * P7) % 1009 == 7",
      "P0 * P7 + P1 * P6 + P2 * P5 + P3 * P4 == 90000",
      "abs(P0 - P1) * abs(P2 - P3) + abs(P4 - P5) * abs(P6 - P7) < 500 and P0 < P2 and P4 < P6"};
  std::string params;
  for (int i = 0; i < kHugeParams; ++i) {
    absl::StrAppend(&params, "params { name: \"P", i, "\" values: \"range(1, ", kHugeValues + 1,
                    ")\" default_value: \"1\" }\n");
  }
  absl::StrAppend(&params, "constraints { expression: \"", kConstraints[which], "\" }");
  return MakeKernel(absl::StrCat("calm_huge_", which), params);
}

class Latencies {
 public:
  void Add(absl::Duration latency, const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    milliseconds_.push_back(absl::ToDoubleMilliseconds(latency));
    if (!status.ok()) ++errors_[status.error_message()];
  }
  Json Take() {
    std::lock_guard lock(mutex_);
    std::vector<double> sorted = std::exchange(milliseconds_, {});
    std::sort(sorted.begin(), sorted.end());
    Json json = {{"count", sorted.size()}};
    if (!sorted.empty()) {
      const auto at = [&](double share) {
        return sorted[std::min(sorted.size() - 1,
                               static_cast<size_t>(share * static_cast<double>(sorted.size())))];
      };
      json["p50_ms"] = at(0.5);
      json["p99_ms"] = at(0.99);
      json["max_ms"] = sorted.back();
    }
    if (!errors_.empty()) json["errors"] = std::exchange(errors_, {});
    return json;
  }

 private:
  std::mutex mutex_;
  std::vector<double> milliseconds_;
  std::map<std::string, int> errors_;
};

class Daemon {
 public:
  Daemon(const std::string& program, const std::string& folder)
      : address_(absl::StrCat("unix:", folder, "/d.sock")) {
    std::vector<std::string> arguments = {program, "--state-dir", folder + "/state", "--listen",
                                          address_};
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, (folder + "/log").c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers.data(), environ) != 0) {
      std::fprintf(stderr, "calm_benchmark: cannot start %s\n", program.c_str());
      std::exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Daemon() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }
  // A field of /proc's status, in MiB.
  double Memory(const std::string& field) const {
    std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(field + ":")) return std::atof(line.c_str() + field.size() + 1) / 1024;
    }
    return 0;
  }

 private:
  const std::string address_;
  pid_t pid_ = 0;
};

// Asks again and again, every few milliseconds.
class Probe {
 public:
  Probe(std::string name, std::function<grpc::Status(grpc::ClientContext&)> ask)
      : name_(std::move(name)), ask_(std::move(ask)), thread_([this] { Loop(); }) {}
  ~Probe() {
    stop_ = true;
    thread_.join();
  }
  const std::string& name() const { return name_; }
  Json Take() { return latencies_.Take(); }

 private:
  void Loop() {
    for (absl::Time next = absl::Now(); !stop_; next += kProbePeriod) {
      absl::SleepFor(next - absl::Now());
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
      const absl::Time begin = absl::Now();
      const grpc::Status status = ask_(context);
      latencies_.Add(absl::Now() - begin, status);
      next = std::max(next, absl::Now() - kProbePeriod);  // what was missed is not made up for
    }
  }

  const std::string name_;
  const std::function<grpc::Status(grpc::ClientContext&)> ask_;
  Latencies latencies_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

grpc::Status AskHealth(grpc::GenericStub& stub, grpc::ClientContext& context) {
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

class Load {
 public:
  explicit Load(const Daemon& daemon)
      : sweeps_(v1::SweepService::NewStub(daemon.Connect())),
        gates_(v1::GateService::NewStub(daemon.Connect())),
        jobs_(v1::JobService::NewStub(daemon.Connect())) {}

  // A study of the small kernel against itself, to be drawn from.
  bool RunStudy() {
    v1::SubmitGateRequest request;
    request.set_kind(v1::GATE_KIND_STUDY);
    *request.add_entries()->mutable_base() = SmallKernel();
    *request.mutable_entries(0)->mutable_head() = SmallKernel();
    request.set_device("cpu");
    request.set_cache_mode(v1::CACHE_MODE_WARM);
    request.mutable_rules()->set_screen_rounds(kStudyRounds);
    request.set_leg_seconds(0.001);
    grpc::ClientContext submitting;
    submitting.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(10)));
    v1::Job job;
    grpc::Status status = gates_->SubmitGate(&submitting, request, &job);
    if (status.ok()) status = FollowStudy(job.id());
    if (!status.ok()) std::fprintf(stderr, "study: %s\n", status.error_message().c_str());
    return status.ok() && study_ != 0;
  }

  void Start() {
    for (int i = 0; i < kHuge; ++i) threads_.emplace_back([this, i] { SubmitHuge(i); });
    threads_.emplace_back([this] { Resample(); });
    threads_.emplace_back([this] { CancelSweeps(); });
  }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  Json Result() {
    Json json;
    std::lock_guard lock(mutex_);
    json["huge_spaces"] = huge_;
    json["gates_drawn"] = drawn_;
    for (auto& [phase, latencies] : cancels_) json["cancel"][phase] = latencies.Take();
    return json;
  }

 private:
  // Notes the study's number.
  grpc::Status FollowStudy(int64_t job_id) {
    v1::WatchJobRequest request;
    request.set_job_id(job_id);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(10)));
    auto reader = jobs_->WatchJob(&context, request);
    for (v1::JobEvent event; reader->Read(&event);) {
      v1::GateRun run;
      for (const auto& any : event.results()) {
        if (any.Is<v1::GateRun>() && any.UnpackTo(&run)) study_ = run.id();
      }
    }
    return reader->Finish();
  }
  static v1::SubmitSweepRequest Request(const v1::KernelSource& source, bool warm = true) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = source;
    request.set_device("cpu");
    request.mutable_budget()->set_seconds(600);
    if (warm) request.set_cache_mode(v1::CACHE_MODE_WARM);
    request.set_fresh(true);
    return request;
  }
  grpc::Status Submit(const v1::KernelSource& source, v1::Sweep* sweep) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
    return sweeps_->SubmitSweep(&context, Request(source), sweep);
  }
  // Until the sweep and those who watch it have ended.
  void Cancel(const std::string& phase, int64_t job_id) {
    v1::CancelJobRequest request;
    request.set_job_id(job_id);
    v1::Job job;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
    const absl::Time begin = absl::Now();
    const grpc::Status status = jobs_->CancelJob(&context, request, &job);
    const absl::Duration spent = absl::Now() - begin;
    std::lock_guard lock(mutex_);
    cancels_[phase].Add(spent, status);
  }
  void SubmitHuge(int which) {
    while (!stop_) {
      v1::Sweep sweep;
      const grpc::Status status = Submit(HugeKernel(which), &sweep);
      {
        std::lock_guard lock(mutex_);
        ++huge_[status.ok() ? "accepted" : status.error_message().substr(0, 200)];
      }
      if (status.ok()) Cancel("huge, waiting or running", sweep.job_id());
    }
  }
  void Resample() {
    while (!stop_) {
      v1::ResampleGateRequest request;
      request.add_run_ids(study_);
      request.set_runs(kResampledRuns);
      v1::ResampleGateResponse response;
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
      const grpc::Status status = gates_->ResampleGate(&context, request, &response);
      std::lock_guard lock(mutex_);
      ++drawn_[status.ok() ? "done" : status.error_message()];
    }
  }
  // Sweeps that run, and hang, each cancelled after another while; one that waits behind it.
  void CancelSweeps() {
    std::mt19937_64 random(1);
    for (int i = 0; !stop_; ++i) {
      const bool hangs = i % 2 == 1;
      v1::Sweep running;
      if (!Submit(hangs ? HangingKernel() : SmallKernel(), &running).ok()) continue;
      v1::Sweep waiting;
      const bool second = Submit(SmallKernel(), &waiting).ok();
      absl::SleepFor(absl::Milliseconds(random() % 3000));
      if (second) Cancel("waiting", waiting.job_id());
      Cancel(hangs ? "running a kernel that hangs" : "running", running.job_id());
    }
  }

  const std::unique_ptr<v1::SweepService::Stub> sweeps_;
  const std::unique_ptr<v1::GateService::Stub> gates_;
  const std::unique_ptr<v1::JobService::Stub> jobs_;
  int64_t study_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::map<std::string, int> huge_;
  std::map<std::string, int> drawn_;
  std::map<std::string, Latencies> cancels_;
};

int Run(const std::string& program, double idle_seconds, double loaded_seconds) {
  std::string folder = (std::filesystem::temp_directory_path() / "calm_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  Json json = {{"params", kHugeParams}, {"values", kHugeValues}, {"spaces_at_once", kHuge}};
  {
    const Daemon daemon(program, folder);
    const auto server = v1::ServerService::NewStub(daemon.Connect());
    const auto records = v1::RecordService::NewStub(daemon.Connect());
    grpc::GenericStub health(daemon.Connect());
    grpc::ClientContext first;
    first.set_wait_for_ready(true);
    first.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
    v1::ServerStatus status;
    if (!server->GetStatus(&first, {}, &status).ok()) {
      std::fprintf(stderr, "calm_benchmark: %s does not answer; see %s/log\n", program.c_str(),
                   folder.c_str());
      return 1;
    }
    Load load(daemon);
    if (!load.RunStudy()) return 1;
    json["memory_before_mib"] = daemon.Memory("VmRSS");
    std::vector<std::unique_ptr<Probe>> probes;
    probes.push_back(std::make_unique<Probe>("GetStatus", [&](grpc::ClientContext& context) {
      v1::ServerStatus response;
      return server->GetStatus(&context, {}, &response);
    }));
    probes.push_back(std::make_unique<Probe>(
        "Check", [&](grpc::ClientContext& context) { return AskHealth(health, context); }));
    probes.push_back(std::make_unique<Probe>("Lookup", [&](grpc::ClientContext& context) {
      v1::LookupRequest request;
      request.set_kernel_name("softmax");
      request.set_device("cpu");
      v1::LookupResponse response;
      return records->Lookup(&context, request, &response);
    }));
    const auto take = [&](const std::string& name, double seconds) {
      for (auto& probe : probes) probe->Take();
      absl::SleepFor(absl::Seconds(seconds));
      for (auto& probe : probes) json[name][probe->name()] = probe->Take();
    };
    take("idle", idle_seconds);
    load.Start();
    take("loaded", loaded_seconds);
    load.Stop();
    json.update(load.Result());
    json["memory_peak_mib"] = daemon.Memory("VmHWM");
    json["memory_after_mib"] = daemon.Memory("VmRSS");
  }
  std::printf("%s\n", json.dump(2).c_str());
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) {
  std::string program = "build/release/bin/tunerd";
  double idle_seconds = 5;
  double loaded_seconds = 60;
  CLI::App app("How calm tunerd stays while it finds huge spaces and cancels sweeps.");
  app.add_option("--tunerd", program, "The daemon's program")->capture_default_str();
  app.add_option("--idle-seconds", idle_seconds, "Asked without load")->capture_default_str();
  app.add_option("--seconds", loaded_seconds, "Asked under load")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return tune::Run(program, idle_seconds, loaded_seconds);
}
