// SPDX-License-Identifier: Apache-2.0
// Launches one kernel as a timed launch is prepared, in one process without workers: for profilers
// that want to own the process (ncu), and for what a study varies that no user should.
//
//   launch_kernel softmax rows=8192 cols=4096 [--dtype=bf16] [--config='THREADS=256 ...']
//   launch_kernel read|l2|l1 [--count]   kernels of ceilings.cu
//   launch_kernel chain [--cupti]        by all clocks, with or without CUPTI in the process
//
// --flush=clean|memset|none  how the cache is left: as ours, after writing one L2, as it was
// --launches=N               timed by events; the last is checked
// --placements=N             so often the buffers are allocated anew, each time elsewhere
// --count                    reads CUPTI's counters instead; not under another profiler
// Prints one line of JSON. Driven by bench/studies/counters.py.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "nlohmann/json.hpp"
#include "server/wire/spec.h"
#include "tuner/device/cuda/activity_clock.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/graph_clock.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/device/cuda/loaded_program.h"
#include "tuner/device/cuda/nvrtc_compiler.h"
#include "tuner/device/cuda/probe_bench.h"
#include "tuner/device/cuda/range_profiler.h"
#include "tuner/device/prepared_problem.h"
#include "tuner/kernel/kernel.h"
#include "tuner/statistics/median.h"

namespace tune::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarmUps = 3;
constexpr int kPassesMax = 8;
constexpr int kGraphRepeats = 15;
constexpr size_t kPlacementStep = 512 << 10;
constexpr unsigned kPlacementStepsMax = 256;
constexpr const char* kCounters[] = {"dram__bytes_read.sum", "dram__bytes_write.sum",
                                     "lts__t_bytes.sum", "l1tex__t_bytes.sum"};
constexpr int kChainLaunches = 40;
constexpr std::pair<int64_t, int64_t> kChains[] = {  // rounds, blocks
    {0, 132}, {800, 132}, {2200, 132}, {9000, 132}, {45000, 132}, {450000, 132}, {10, 1000000}};
constexpr char kChain[] = R"(
extern "C" __global__ void chain(int rounds, float* out) {
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i) x = fmaf(x, 0.5f, 1.0f);
  if (x == 1.2345f) *out = x;
})";

struct Options {
  std::string kernel;
  std::map<std::string, int64_t> dims;
  std::string dtype;
  std::string config;
  std::string flush = "clean";
  int launches = 1;
  int placements = 1;
  bool count = false;
  bool cupti = false;
};

absl::Status ParseFlag(const std::string& name, const std::string& value, Options& options) {
  if (name == "--count") {
    options.count = true;
  } else if (name == "--cupti") {
    options.cupti = true;
  } else if (name == "--dtype") {
    options.dtype = value;
  } else if (name == "--config") {
    options.config = value;
  } else if (name == "--flush" && (value == "clean" || value == "memset" || value == "none")) {
    options.flush = value;
  } else if (name == "--launches" && absl::SimpleAtoi(value, &options.launches) &&
             options.launches > 0) {
  } else if (name == "--placements" && absl::SimpleAtoi(value, &options.placements) &&
             options.placements > 0) {
  } else {
    return absl::InvalidArgumentError(absl::StrCat("what is ", name, " with '", value, "'?"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> Parse(int argc, char** argv) {
  if (argc < 2) return absl::InvalidArgumentError("launch_kernel KERNEL [DIM=N]... [--FLAG=...]");
  Options options;
  options.kernel = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::pair<std::string, std::string> sides =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    if (absl::StartsWith(sides.first, "--")) {
      RETURN_IF_ERROR(ParseFlag(sides.first, sides.second, options));
    } else if (!absl::SimpleAtoi(sides.second, &options.dims[sides.first])) {
      return absl::InvalidArgumentError(absl::StrCat(argv[i], " is not DIM=NUMBER"));
    }
  }
  return options;
}

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}

  absl::StatusOr<Json> Run() {
    RETURN_IF_ERROR(Open());
    if (options_.kernel == "chain") return RunChains();
    if (options_.kernel == "read") return RunRead();
    if (options_.kernel == "l2" || options_.kernel == "l1") return RunCache();
    return RunCatalogue();
  }

 private:
  using Launch = std::function<absl::Status()>;

  absl::Status Open() {
    ASSIGN_OR_RETURN(toolkit_, FindToolkit());
    ASSIGN_OR_RETURN(DriverApi driver, DriverApi::Load());
    if (options_.cupti) {
      ASSIGN_OR_RETURN(int sm, DeviceContext::ReadSm(driver, 0));
      ASSIGN_OR_RETURN(activity_, ActivityClock::Start(toolkit_, /*hardware_trace=*/sm >= 100));
    }
    ASSIGN_OR_RETURN(context_, DeviceContext::Open(driver, 0));
    if (options_.count) {
      ASSIGN_OR_RETURN(profiler_, RangeProfiler::Open(*context_, toolkit_));
    }
    ASSIGN_OR_RETURN(compiler_, MakeNvrtcCompiler(toolkit_));
    ASSIGN_OR_RETURN(harness_, Harness::Create(*context_, *compiler_));
    ASSIGN_OR_RETURN(dirt_, DeviceMemory::Allocate(*context_, context_->l2_bytes));
    for (CUevent& event : events_) {
      RETURN_IF_ERROR(context_->Check(context_->driver.cuEventCreate(&event, CU_EVENT_DEFAULT),
                                      "cuEventCreate"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Compile(const CompilePlan& plan) {
    ASSIGN_OR_RETURN(Artifact artifact, compiler_->Compile(plan));
    if (artifact.outcome == Outcome::kOk) return std::move(artifact.binary);
    return absl::InvalidArgumentError(absl::StrCat(plan.source_name, ": ", artifact.log));
  }

  absl::Status MakeDirty() {
    return context_->Check(
        context_->driver.cuMemsetD8Async(dirt_.address(), 1, dirt_.bytes(), context_->stream),
        "cuMemsetD8Async");
  }

  absl::Status Flush() {
    if (options_.flush == "none") return absl::OkStatus();
    return options_.flush == "memset" ? MakeDirty() : harness_->FlushCache();
  }

  // Median of events in ns, of launches that `prepare` and the flush precede.
  absl::StatusOr<Json> Time(const Launch& prepare, const Launch& launch) {
    std::vector<double> samples_ns;
    const int warm_ups = options_.launches > kWarmUps ? kWarmUps : 0;
    for (int i = 0; i < options_.launches + warm_ups; ++i) {
      RETURN_IF_ERROR(prepare());
      RETURN_IF_ERROR(Flush());
      const DriverApi& driver = context_->driver;
      RETURN_IF_ERROR(
          context_->Check(driver.cuEventRecord(events_[0], context_->stream), "cuEventRecord"));
      RETURN_IF_ERROR(launch());
      RETURN_IF_ERROR(
          context_->Check(driver.cuEventRecord(events_[1], context_->stream), "cuEventRecord"));
      RETURN_IF_ERROR(context_->Synchronize());
      float milliseconds = 0;
      RETURN_IF_ERROR(context_->Check(
          driver.cuEventElapsedTime(&milliseconds, events_[0], events_[1]), "cuEventElapsedTime"));
      if (i >= warm_ups) samples_ns.push_back(milliseconds * 1e6);
    }
    const MedianInterval median = EstimateMedian(samples_ns);
    return Json{{"events_ns", median.median}, {"low", median.low}, {"high", median.high}};
  }

  absl::StatusOr<Json> Count(const Launch& prepare, const Launch& launch) {
    const std::vector<std::string> metrics(std::begin(kCounters), std::end(kCounters));
    ASSIGN_OR_RETURN(CounterConfig config, profiler_->host().Configure(metrics, kPassesMax));
    const RangeProfiler::Work work = {.prepare = [&]() -> absl::Status {
                                        RETURN_IF_ERROR(prepare());
                                        return Flush();
                                      },
                                      .launch = launch};
    ASSIGN_OR_RETURN(std::vector<CounterReading> readings,
                     profiler_->ReadSeveral(config, work, /*readings=*/3));
    Json counted = Json::object();
    for (const CounterReading& reading : readings) counted[reading.name] = reading.value;
    return counted;
  }

  absl::StatusOr<Json> TimeOrCount(const Launch& prepare, const Launch& launch) {
    return options_.count ? Count(prepare, launch) : Time(prepare, launch);
  }

  // Reads each word of an array once, after the same kernel has read it before and the cache was
  // filled with dirty lines of others: every size with every flush.
  absl::StatusOr<Json> RunRead() {
    ASSIGN_OR_RETURN(ProbeBench bench, ProbeBench::Create(*context_, *compiler_, /*suite=*/true));
    Probe read;
    read.kernel = "read_4";
    read.shape = ProbeShape::kRead;
    read.words_per_thread = 4;
    Json results = Json::array();
    for (const int mib : {4, 64}) {
      const size_t bytes = static_cast<size_t>(mib) << 20;
      const auto launch = [&] { return bench.LaunchPart(read, bytes); };
      const auto prepare = [&]() -> absl::Status {
        RETURN_IF_ERROR(MakeDirty());
        return launch();
      };
      for (const char* flush : {"none", "memset", "clean"}) {
        options_.flush = flush;
        ASSIGN_OR_RETURN(Json result, TimeOrCount(prepare, launch));
        result["bytes"] = bytes;
        result["flush"] = flush;
        results.push_back(std::move(result));
      }
    }
    return results;
  }

  // The probes of a cache's ceiling: bytes a second, and what the counters say of the same bytes.
  absl::StatusOr<Json> RunCache() {
    ASSIGN_OR_RETURN(ProbeBench bench, ProbeBench::Create(*context_, *compiler_, /*suite=*/true));
    Json results = Json::array();
    for (const Probe& probe : ProbesFor(context_->sm, /*suite=*/true)) {
      if (probe.ceiling != options_.kernel) continue;
      Json result = {{"probe", probe.Text()}};
      if (options_.count) {
        ASSIGN_OR_RETURN(result["counters"], CountRounds(bench, probe));
      } else {
        ASSIGN_OR_RETURN(result["bytes_per_second"], bench.Measure(probe));
      }
      results.push_back(std::move(result));
    }
    return results;
  }

  // Subtracts a shorter run from a longer one, which cancels the counts before and after the
  // rounds.
  absl::StatusOr<Json> CountRounds(ProbeBench& bench, const Probe& probe) {
    constexpr int kRounds[] = {64, 192};
    Json counted[2];
    for (int i = 0; i < 2; ++i) {
      const auto launch = [&, i] { return bench.Launch(probe, kRounds[i]); };
      ASSIGN_OR_RETURN(counted[i], Count(launch, launch));
    }
    Json difference = Json::object();
    for (const auto& [name, value] : counted[1].items()) {
      difference[name] = value.get<double>() - counted[0].value(name, 0.0);
    }
    difference["bytes"] = bench.Work(probe, kRounds[1]) - bench.Work(probe, kRounds[0]);
    return difference;
  }

  // The clocks, from an empty kernel to a millisecond of arithmetic, and on a million short blocks.
  // CUPTI may slow a kernel down by being there.
  absl::StatusOr<Json> RunChains() {
    CompilePlan plan;
    plan.target = TargetOf(context_->sm);
    plan.source_name = "chain.cu";
    plan.source_text = kChain;
    plan.entries = {"chain"};
    ASSIGN_OR_RETURN(const std::string binary, Compile(plan));
    options_.flush = "none";
    options_.launches = kChainLaunches;
    Json results = Json::array();
    for (const auto& [rounds, blocks] : kChains) {
      LaunchPlan launch;
      launch.entry = plan.entries[0];
      launch.grid = {blocks, 1, 1};
      launch.block = {128, 1, 1};
      BufferPlan out;
      out.name = "out";
      out.count = 1;
      const StepPlan step = {.launch = launch,
                             .args = {ScalarPlan{"rounds", DType::kI32, Value(rounds)}, out}};
      ASSIGN_OR_RETURN(LoadedProgram kernel,
                       LoadedProgram::Load(*context_, {.steps = {step}, .binary = binary},
                                           [&](const BufferPlan&) {
                                             return DeviceArray{DType::kF32, dirt_.address(), 1};
                                           }));
      ASSIGN_OR_RETURN(Json result, TimeChain(kernel));
      result["rounds"] = rounds;
      result["blocks"] = blocks;
      results.push_back(std::move(result));
    }
    return results;
  }

  absl::StatusOr<Json> TimeChain(const LoadedProgram& kernel) {
    const auto launch = [&] { return kernel.Launch(); };
    ASSIGN_OR_RETURN(Json result, Time([] { return absl::OkStatus(); }, launch));
    const int launches = GraphLaunches(result["events_ns"].get<double>());
    ASSIGN_OR_RETURN(result["graph_ns"], TimeByGraph(*context_, launch, launches, kGraphRepeats));
    if (activity_ == nullptr) return result;
    RETURN_IF_ERROR(activity_->Clear());
    for (int i = 0; i < kChainLaunches; ++i) RETURN_IF_ERROR(launch());
    RETURN_IF_ERROR(context_->Synchronize());
    ASSIGN_OR_RETURN(std::vector<double> records_ns, activity_->Collect(kChainLaunches));
    result["cupti_ns"] = EstimateMedian(std::move(records_ns)).median;
    return result;
  }

  absl::StatusOr<Config> WantedConfig(const Kernel& kernel, const Problem& problem,
                                      const TargetTraits& traits) const {
    if (options_.config.empty()) return kernel.DefaultConfig(problem, traits);
    ASSIGN_OR_RETURN(const Space space, kernel.MakeSpace(problem, traits));
    for (uint64_t i = 0; i < space.size(); ++i) {
      Config config = space.At(i);
      if (ToText(config) == options_.config) return config;
    }
    return absl::NotFoundError(absl::StrCat("no config is '", options_.config, "'"));
  }

  absl::StatusOr<Json> RunCatalogue() {
    ASSIGN_OR_RETURN(const std::vector<CatalogueEntry> catalogue, LoadCatalogue());
    const auto entry =
        std::find_if(catalogue.begin(), catalogue.end(),
                     [&](const CatalogueEntry& known) { return known.name == options_.kernel; });
    if (entry == catalogue.end()) {
      return absl::NotFoundError(absl::StrCat("no kernel ", options_.kernel));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const Kernel> kernel,
                     server::ReadKernel(entry->spec_name, entry->spec_text, entry->files));
    ASSIGN_OR_RETURN(TargetTraits traits, TargetTraitsFor(TargetOf(context_->sm)));
    traits.max_threads_per_block = context_->max_threads_per_block;
    traits.max_shared_bytes = context_->max_shared_bytes;
    traits.sm_count = context_->sm_count;
    ASSIGN_OR_RETURN(const Problem problem,
                     kernel->MakeProblem(options_.dims, options_.dtype, traits.target));
    ASSIGN_OR_RETURN(const ProblemPlan plan, kernel->PlanProblem(problem, traits));
    ASSIGN_OR_RETURN(const Config config, WantedConfig(*kernel, problem, traits));
    ASSIGN_OR_RETURN(const ProgramPlan planned, kernel->PlanProgram(problem, traits, config));
    ASSIGN_OR_RETURN(const std::string reference, Compile(plan.reference.compile));
    Program program = {.steps = planned.steps};
    ASSIGN_OR_RETURN(program.binary, Compile(planned.compile));
    Json result = {{"kernel", options_.kernel},
                   {"problem", ToText(problem)},
                   {"config", ToText(config)},
                   {"entries", planned.compile.entries},
                   {"placements", Json::array()}};
    std::mt19937 random(20261121);
    for (int i = 0; i < options_.placements; ++i) {
      const size_t before = i == 0 ? 0 : kPlacementStep * (1 + random() % kPlacementStepsMax);
      ASSIGN_OR_RETURN(Json placed, RunPlaced(plan, reference, program, before));
      result["placements"].push_back(std::move(placed));
    }
    return result;
  }

  absl::StatusOr<Json> RunPlaced(const ProblemPlan& plan, const std::string& reference,
                                 const Program& program, size_t bytes_before) {
    ASSIGN_OR_RETURN(const DeviceMemory before,
                     DeviceMemory::Allocate(*context_, std::max<size_t>(1, bytes_before)));
    ASSIGN_OR_RETURN(std::unique_ptr<PreparedProblem> problem,
                     PreparedProblem::Create(*harness_, plan, reference, /*seed=*/1));
    ASSIGN_OR_RETURN(const LoadedProgram kernel,
                     LoadedProgram::Load(*context_, program, [&](const BufferPlan& wanted) {
                       return problem->Resolve(wanted);
                     }));
    ASSIGN_OR_RETURN(Json result, TimeOrCount(
                                      [&]() -> absl::Status {
                                        RETURN_IF_ERROR(problem->RestoreInOuts());
                                        return problem->PoisonOutputs();
                                      },
                                      [&] { return kernel.Launch(); }));
    ASSIGN_OR_RETURN(const Verdict verdict, problem->Check());
    if (!verdict.right) return absl::DataLossError(verdict.message);
    return result;
  }

  Options options_;
  Toolkit toolkit_;
  std::unique_ptr<DeviceContext> context_;
  ActivityClock* activity_ = nullptr;
  std::unique_ptr<RangeProfiler> profiler_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Harness> harness_;
  DeviceMemory dirt_;  // as large as the cache
  CUevent events_[2] = {};
};

absl::StatusOr<Json> Main(int argc, char** argv) {
  ASSIGN_OR_RETURN(Options options, Parse(argc, argv));
  return Bench(std::move(options)).Run();
}

}  // namespace
}  // namespace tune::cuda

int main(int argc, char** argv) {
  const absl::StatusOr<nlohmann::ordered_json> result = tune::cuda::Main(argc, argv);
  if (!result.ok()) {
    std::fprintf(stderr, "launch_kernel: %s\n", std::string(result.status().message()).c_str());
    return 1;
  }
  std::printf("%s\n", result->dump().c_str());
  return 0;
}
