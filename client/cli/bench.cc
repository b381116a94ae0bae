// SPDX-License-Identifier: Apache-2.0
// tunectl bench KERNEL...: configs as Google Benchmark cases, so that its flags, its JSON and what
// reads them keep working. The times are the device's own, from the daemon.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"
#include "base/spec_dtype.h"
#include "base/status_macros.h"
#include "client/cli/benchmark_run.h"
#include "client/cli/command.h"
#include "client/cli/config_flag.h"
#include "client/cli/job_follow.h"
#include "client/cli/waiting_note.h"
#include "client/report/format.h"
#include "tune/v1/bench.grpc.pb.h"
#include "tune/v1/device.grpc.pb.h"

namespace tune::client {
namespace {

struct BenchFlags {
  ProblemFlags problem{.kernel = {.several = true}};
  std::vector<std::string> configs;
  uint32_t samples = 100;
  double seconds_max = 10;
  bool best = false;
  bool plain = false;
  bool detach = false;
};

// A case of Google Benchmark: its name and the measurement that it asks for.
struct BenchCase {
  std::string name;
  v1::SubmitBenchRequest request;
};

class Bench {
 public:
  Bench(Session& session, const BenchFlags& flags) : session_(session), flags_(flags) {}
  absl::Status Run();

 private:
  absl::Status MakeCases();
  absl::Status AddContext();
  absl::StatusOr<v1::Job> SubmitCase(const BenchCase& item) {
    return Call(connection_, &v1::BenchService::Stub::SubmitBench, item.request);
  }
  absl::Status SubmitAll();
  void Measure(const BenchCase& item, benchmark::State& state);

  Session& session_;
  const BenchFlags& flags_;
  Connection* connection_ = nullptr;
  std::vector<BenchCase> cases_;
  absl::Status failure_;  // the first of the harness
  bool any_not_ok_ = false;
};

// "softmax/rows:256/cols:1024/bf16/best": a path, as Google Benchmark names its arguments.
std::string CaseName(const std::string& kernel, const std::map<std::string, int64_t>& dims,
                     const std::string& dtype, const std::string& which) {
  std::string name = kernel;
  for (const auto& [dim, value] : dims) absl::StrAppend(&name, "/", dim, ":", value);
  if (!dtype.empty()) absl::StrAppend(&name, "/", dtype);
  return Printable(absl::StrCat(name, "/", absl::StrReplaceAll(which, {{" ", ","}, {"/", "_"}})));
}

absl::Status Bench::MakeCases() {
  const std::string dtype = SpecDType(flags_.problem.dtype);
  ASSIGN_OR_RETURN(const auto dims, ParseDims(session_.dims));
  v1::SubmitBenchRequest common;
  RETURN_IF_ERROR(SetMeasured(session_, flags_.problem, common));
  common.set_samples(flags_.samples);
  common.set_seconds_max(flags_.seconds_max);
  std::vector<std::pair<std::string, v1::SubmitBenchRequest>> kernels;
  for (const std::string& kernel : flags_.problem.kernel.All()) {
    kernels.emplace_back("", common);
    ASSIGN_OR_RETURN(kernels.back().first, SetKernel(kernel, kernels.back().second));
  }
  const bool neither = flags_.configs.empty() && !flags_.plain;
  for (const auto& [kernel, request] : kernels) {
    const auto add = [&, &kernel = kernel,
                      &request = request](const std::string& which) -> v1::SubmitBenchRequest& {
      cases_.push_back({CaseName(kernel, dims, dtype, which), request});
      return cases_.back().request;
    };
    if (flags_.plain) add("default");
    if (flags_.best || neither) add("best").set_best(true);
    for (const std::string& text : flags_.configs) {
      ASSIGN_OR_RETURN(*add(text).mutable_config(), ParseConfig(text));
    }
  }
  return absl::OkStatus();
}

// Adds the device to the context, which Google Benchmark prints above the results and in its JSON.
absl::Status Bench::AddContext() {
  v1::GetDeviceRequest request;
  request.set_id(flags_.problem.device);
  ASSIGN_OR_RETURN(const v1::Device device,
                   Call(connection_, &v1::DeviceService::Stub::GetDevice, request));
  benchmark::AddCustomContext("device", Printable(device.name()));
  benchmark::AddCustomContext("device_id", Printable(device.id()));
  benchmark::AddCustomContext("target", Printable(device.target()));
  benchmark::AddCustomContext("driver", Printable(device.driver()));
  benchmark::AddCustomContext("compiler", Printable(device.compiler()));
  benchmark::AddCustomContext("clock", ToText(device.clock()));
  benchmark::AddCustomContext("cache", flags_.problem.warm ? "warm" : "cold");
  return absl::OkStatus();
}

// Queues every case as a job, and measures none here.
absl::Status Bench::SubmitAll() {
  RETURN_IF_ERROR(CheckDetach(*connection_));
  for (const BenchCase& item : cases_) {
    ASSIGN_OR_RETURN(const v1::Job job, SubmitCase(item));
    RETURN_IF_ERROR(PrintDetached(session_, job));
  }
  return absl::OkStatus();
}

void Bench::Measure(const BenchCase& item, benchmark::State& state) {
  v1::BenchResult measured;
  const absl::Status status = [&]() -> absl::Status {
    if (absl::IsCancelled(failure_)) return failure_;
    const WaitingNote note(
        absl::StrCat(item.name, " waits for the device's turn, is compiled, or is measured"));
    ASSIGN_OR_RETURN(const v1::Job job, SubmitCase(item));
    return AwaitJob(*connection_, job, [&](const v1::JobEvent& event) {
      ForEachResult<v1::BenchResult>(event, [&](const v1::BenchResult& one) { measured = one; });
    });
  }();
  const v1::Trial& trial = measured.trial();
  if (!status.ok()) {
    if (failure_.ok()) failure_ = status;
    state.SkipWithError(Printable(status.message()).c_str());
    return;
  }
  const auto& samples = trial.measurement().samples_ns();
  if (trial.outcome() != v1::OUTCOME_OK || samples.empty()) {
    any_not_ok_ = true;
    state.SkipWithError(
        Printable(absl::StrCat(ToText(trial.outcome()), ": ", trial.message())).c_str());
    return;
  }
  // Google Benchmark has fixed the number of iterations; a kernel so slow that its time was spent
  // sooner has fewer samples, which are then gone through again.
  int next = 0;
  for (auto _ : state) state.SetIterationTime(samples[next++ % samples.size()] * 1e-9);
  // The best of a like problem is not the best of this one.
  const bool other = !measured.reason().empty() && !absl::StartsWith(measured.reason(), "exact");
  state.SetLabel(Printable(absl::StrCat(ToText(trial.config()),
                                        other ? absl::StrCat("  (", measured.reason(), ")") : "")));
  if (measured.declared_bytes() > 0) {
    state.counters["bytes_per_second"] =
        benchmark::Counter(measured.declared_bytes(), benchmark::Counter::kIsIterationInvariantRate,
                           benchmark::Counter::kIs1024);
  }
  if (measured.declared_flops() > 0) {
    state.counters["FLOP/s"] = benchmark::Counter(measured.declared_flops(),
                                                  benchmark::Counter::kIsIterationInvariantRate);
  }
  state.counters["samples"] = samples.size();
  state.counters["median_us"] = trial.measurement().latency_ns_median() / 1e3;
  if (trial.measurement().peak_fraction() > 0) {
    state.counters["peak_fraction"] = trial.measurement().peak_fraction();
  }
  if (trial.telemetry().sm_clock_mhz() > 0) {
    state.counters["sm_clock_mhz"] = trial.telemetry().sm_clock_mhz();
  }
  if (trial.resources().registers() > 0) {
    state.counters["registers"] = trial.resources().registers();
  }
}

absl::Status Bench::Run() {
  if (flags_.problem.kernel.All().empty()) {
    return absl::InvalidArgumentError(
        "name kernels, of the catalogue or your own: 'tunectl bench softmax my/kernel.textproto'");
  }
  RETURN_IF_ERROR(MakeCases());
  std::vector<std::string> words = {"tunectl bench"};
  words.insert(words.end(), session_.benchmark_flags.begin(), session_.benchmark_flags.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Google Benchmark has no flag '", argv[1],
        "'; its flags are --benchmark_filter=REGEX, "
        "--benchmark_repetitions=N, --benchmark_format=json, --benchmark_out=FILE, ..."));
  }
  ASSIGN_OR_RETURN(connection_, session_.Connect());
  if (flags_.detach) return SubmitAll();
  RETURN_IF_ERROR(AddContext());
  for (const BenchCase& item : cases_) {
    benchmark::RegisterBenchmark(item.name.c_str(),
                                 [this, &item](benchmark::State& state) { Measure(item, state); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(flags_.samples);
  }
  const size_t matched = RunBenchmarks();
  benchmark::Shutdown();
  if (!failure_.ok()) return failure_;
  if (matched == 0) {
    return absl::InvalidArgumentError(
        "no case fits --benchmark_filter; "
        "--benchmark_list_tests=true lists them");
  }
  if (any_not_ok_) session_.Finish(kNoValidConfig);
  return absl::OkStatus();
}

}  // namespace

Command BenchCommand(Session& session) {
  auto flags = std::make_shared<BenchFlags>();
  return {
      .name = "bench",
      .help = "Run configs as Google Benchmark cases, timed by the device",
      .examples = {"tunectl bench softmax --rows 8192 --cols 4096 --best --default",
                   "tunectl bench attention --config 'BLOCK_M=64 BLOCK_N=64' "
                   "--benchmark_repetitions=5",
                   "tunectl bench rope --benchmark_out=rope.json --benchmark_out_format=json"},
      .notes =
          "Each repetition is a fresh process. All --benchmark_... flags work, with '=' before "
          "the value.",
      .kernel = &flags->problem.kernel,
      .dims = true,
      .flags = Joined(
          {Flag("--config", &flags->configs, kConfigHelp),
           Flag("--best", &flags->best, "Run the best known config, which is the default"),
           Flag("--default", &flags->plain, "Run the spec's default config"),
           Flag("--samples", &flags->samples, "Timed launches of a repetition").Range(1, 10000),
           Flag("--seconds", &flags->seconds_max, "Maximum kernel time of a repetition, in seconds")
               .Range(0.001, 300),
           Flag("--detach", &flags->detach,
                "Queue each case and return; `tunectl job wait --json` prints its result")},
          MeasuredFlags(flags->problem)),
      .run = [&session, flags] { return Bench(session, *flags).Run(); }};
}

}  // namespace tune::client
