// SPDX-License-Identifier: Apache-2.0
// Time until a trial is durable, alone and in company, and of reading what a sweep continues from.
// The file is in TMPDIR: set it to the disk that matters.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/cli/benchmark_run.h"
#include "db/store.h"

namespace tune::db {
namespace {

class BenchmarkStore {
 public:
  BenchmarkStore() {
    std::string folder = (std::filesystem::temp_directory_path() / "tune_bench_XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    store_ = Store::Open(folder_ + "/tune.db").value();
    if (!store_->PutKernel({.hash = "hash", .name = "kernel"}).ok()) std::abort();
    sweep_id_ = store_->AddSweep({.kernel_hash = "hash", .strategy = "exhaustive"}).value().id;
  }
  ~BenchmarkStore() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  Store& store() { return *store_; }
  TrialKey key() const {
    return {.kernel_hash = "hash", .device_name = "device", .target = "sm_90a"};
  }
  // A trial of the usual size: six params, 200 samples.
  Trial MakeTrial(int64_t number) const {
    Trial trial{.sweep_id = sweep_id_};
    trial.config.entries = {
        {"BLOCK_M", number}, {"BLOCK_N", int64_t{128}},      {"STAGES", int64_t{3}},
        {"UNROLL", true},    {"WHERE", std::string("smem")}, {"FACTOR", 0.5}};
    trial.measurement.samples_ns.assign(200, 12345.678);
    return trial;
  }

 private:
  std::string folder_;
  std::unique_ptr<Store> store_;
  int64_t sweep_id_ = 0;
};

void BM_AppendTrial(benchmark::State& state) {
  static std::unique_ptr<BenchmarkStore> shared;
  if (state.thread_index() == 0) shared = std::make_unique<BenchmarkStore>();
  int64_t number = state.thread_index() * 1'000'000;
  for (auto _ : state) {
    absl::StatusOr<int64_t> id =
        shared->store().AppendTrial(shared->MakeTrial(number++), shared->key());
    if (!id.ok()) state.SkipWithError("append failed");
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) shared.reset();
}
BENCHMARK(BM_AppendTrial)->Threads(1)->Threads(8)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_TrialsOfKey10k(benchmark::State& state) {
  BenchmarkStore bench;
  std::vector<std::thread> writers;
  for (int64_t writer = 0; writer < 8; ++writer) {
    writers.emplace_back([&bench, writer] {
      for (int64_t i = 0; i < 1250; ++i) {
        if (!bench.store().AppendTrial(bench.MakeTrial(writer * 1250 + i), bench.key()).ok()) {
          std::abort();
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (auto _ : state) {
    absl::StatusOr<std::vector<Trial>> trials = bench.store().TrialsOfKey(bench.key());
    if (!trials.ok() || trials->size() != 10000) state.SkipWithError("wrong trials");
  }
}
BENCHMARK(BM_TrialsOfKey10k)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tune::db

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tune::client::RunBenchmarks();
  benchmark::Shutdown();
}
