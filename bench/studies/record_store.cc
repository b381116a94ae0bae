// SPDX-License-Identifier: Apache-2.0
// Makes the store of a daemon that has tuned for years: as many records as asked for, each with its
// finished sweep and its trial. Rows are written by the store's own code, many to a transaction.
// bench/studies/service.py starts daemons on it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "db/rows.h"
#include "db/sqlite_connection.h"
#include "db/store.h"
#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"

namespace tune::db {
namespace {

constexpr int kKernels = 10;
constexpr int kDevices = 4;
constexpr int kSamples = 20;
constexpr int64_t kRowsAtOnce = 20'000;
constexpr int64_t kPublishedUnixMs = 1'767'225'600'000;  // 2026-01-01

// Dims as attention has them: a bucketed and a nearest size, a batch, two modes.
constexpr char kSpec[] = R"spec(name: "@name"
summary: "y = 3 x"
source: "scale.cu"
entry: "scale"
dims { name: "seq_q" default_value: 4096 min: 1 max: 1048576 }
dims { name: "seq_k" default_value: 4096 min: 1 max: 1048576 match: DIM_MATCH_BUCKETED }
dims { name: "batch" default_value: 1 min: 1 max: 4096 }
dims { name: "head_dim" default_value: 64 values: [64, 128] match: DIM_MATCH_EXACT }
dims { name: "causal" default_value: 0 values: [0, 1] match: DIM_MATCH_EXACT }
dtypes: "bf16"
params { name: "BLOCK_M" values: "[64, 128]" default_value: "64" }
params { name: "BLOCK_N" values: "[64, 128]" default_value: "64" }
params { name: "STAGES" values: "range(1, 5)" default_value: "2" }
params { name: "THREADS" values: "[128, 256]" default_value: "128" }
constraints { expression: "BLOCK_M * BLOCK_N * STAGES <= 65536" }
args { name: "x" buffer { dtype: "dtype" shape: "seq_q" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: "seq_q" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "seq_q" } }
launch { grid: "ceil_div(seq_q, THREADS)" block: "THREADS" }
work { flops: "seq_q" bytes: "2 * seq_q * dtype_bytes" peak: "f32" }
reference {
  entry: "scale_reference"
  dtype: "f64"
  launch { grid: "ceil_div(seq_q, 64)" block: "64" }
}
)spec";
constexpr char kSource[] = R"cu(
#ifdef TUNE_REFERENCE
extern "C" __global__ void scale_reference(const DTYPE* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0 * (float)x[i];
}
#else
extern "C" __global__ void scale(const DTYPE* x, DTYPE* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (DTYPE)(3.0f * (float)x[i]);
}
#endif
)cu";

absl::StatusOr<std::vector<KernelRow>> MakeKernels() {
  std::vector<KernelRow> kernels;
  for (int i = 0; i < kKernels; ++i) {
    const std::string name = absl::StrCat("stored_", i);
    KernelRow row{.name = name,
                  .spec_name = name + ".textproto",
                  .spec_text = absl::StrReplaceAll(kSpec, {{"@name", name}}),
                  .files = {{"scale.cu", kSource}}};
    ASSIGN_OR_RETURN(const auto kernel,
                     server::ReadKernel(row.spec_name, row.spec_text, row.files));
    row.hash = kernel->hash();
    kernels.push_back(std::move(row));
  }
  return kernels;
}

TrialKey RandomKey(const KernelRow& kernel, std::mt19937& random) {
  const auto size = [&](int64_t most) { return static_cast<int64_t>(random() % most) + 1; };
  return {.kernel_hash = kernel.hash,
          .problem = {.dims = {{"seq_q", size(131072)},
                               {"seq_k", size(131072)},
                               {"batch", size(256)},
                               {"head_dim", random() % 2 == 0 ? 64 : 128},
                               {"causal", static_cast<int64_t>(random() % 2)}},
                      .dtype = DType::kBF16},
          .device_name = absl::StrCat("NVIDIA Bench GPU ", random() % kDevices),
          .target = "sm_90a",
          .driver = "580.159.04",
          .compiler = "NVRTC 13.0"};
}

Trial RandomTrial(int64_t sweep_id, std::mt19937& random) {
  Trial trial{.sweep_id = sweep_id, .purpose = TrialPurpose::kConfirm};
  trial.config.entries = {{"BLOCK_M", int64_t{64} << random() % 2},
                          {"BLOCK_N", int64_t{64} << random() % 2},
                          {"STAGES", static_cast<int64_t>(random() % 4) + 1},
                          {"THREADS", int64_t{128} << random() % 2}};
  const double median = 1000 + static_cast<double>(random() % 1'000'000);
  trial.measurement.samples_ns.assign(kSamples, median);
  trial.measurement.latency_ns_median = median;
  trial.measurement.latency_ns_low = median * 0.99;
  trial.measurement.latency_ns_high = median * 1.01;
  trial.measurement.clock = Clock::kCupti;
  trial.resources.registers = 128;
  trial.resources.binary_sha256 = absl::StrFormat("%064x", random());
  trial.finished_unix_ms = kPublishedUnixMs;
  return trial;
}

absl::Status AddRecord(Connection& connection, const KernelRow& kernel, std::mt19937& random) {
  const TrialKey key = RandomKey(kernel, random);
  ASSIGN_OR_RETURN(const int64_t key_id, AddTrialKey(connection, key));
  SweepRow sweep{.job = {.state = JobState::kDone,
                         .owner = "uid 0",
                         .subject = kernel.name,
                         .device_id = "cuda:0",
                         .created_unix_ms = kPublishedUnixMs,
                         .started_unix_ms = kPublishedUnixMs,
                         .finished_unix_ms = kPublishedUnixMs},
                 .kernel_hash = kernel.hash,
                 .kernel_name = kernel.name,
                 .problem = key.problem,
                 .device_name = key.device_name,
                 .target = key.target,
                 .strategy = "auto",
                 .summary = "{}"};
  RETURN_IF_ERROR(InsertSweep(connection, sweep));
  ASSIGN_OR_RETURN(const int64_t trial_id,
                   InsertTrial(connection, RandomTrial(sweep.id, random), key_id));
  Statement update = connection.Prepare("UPDATE sweep SET best_trial_id = ? WHERE id = ?");
  RETURN_IF_ERROR(update.Bind(trial_id, sweep.id).Run());
  Statement insert = connection.Prepare(
      "INSERT INTO record (trial_id, default_latency_ns, tie_count, published_unix_ms, artifact) "
      "VALUES (?, 0.0, 0, ?, '')");
  return insert.Bind(trial_id, kPublishedUnixMs + trial_id).Run();
}

absl::Status Make(const std::string& path, int64_t count, uint32_t seed) {
  ASSIGN_OR_RETURN(const std::vector<KernelRow> kernels, MakeKernels());
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(path));
    for (const KernelRow& kernel : kernels) RETURN_IF_ERROR(store->PutKernel(kernel));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   SqliteConnection::Open(path, SqliteConnection::Mode::kReadWriteCreate));
  // Nobody mourns a store that was not finished.
  RETURN_IF_ERROR(connection->Execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000"));
  std::mt19937 random(seed);
  for (int64_t done = 0; done < count;) {
    RETURN_IF_ERROR(connection->Execute("BEGIN IMMEDIATE"));
    for (const int64_t end = std::min(count, done + kRowsAtOnce); done < end; ++done) {
      RETURN_IF_ERROR(AddRecord(*connection, kernels[random() % kKernels], random));
    }
    RETURN_IF_ERROR(connection->Execute("COMMIT"));
    RETURN_IF_ERROR(connection->Execute("PRAGMA wal_checkpoint(TRUNCATE)"));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tune::db

int main(int argc, char** argv) {
  std::string folder;
  int64_t count = 1'000'000;
  uint32_t seed = 1;
  CLI::App app("Makes a store with many records, for bench/studies/service.py.");
  app.add_option("state", folder, "The daemon's state folder; made if it is not there")->required();
  app.add_option("--records", count, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--seed", seed, "Of what is in them")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const absl::Status made = tune::db::Make(folder + "/tune.db", count, seed);
  if (made.ok()) return 0;
  std::fprintf(stderr, "record_store: %s\n", made.ToString().c_str());
  return 1;
}
