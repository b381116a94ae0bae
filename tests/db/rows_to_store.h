// SPDX-License-Identifier: Apache-2.0
// Rows with a different value in every field, and a database file of its own for each test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "db/postgres_connection.h"
#include "db/postgres_dialect.h"
#include "db/sqlite_connection.h"
#include "db/store.h"
#include "gtest/gtest.h"
#include "tuner/trial_key.h"

namespace tune::db {

inline KernelRow MakeKernelRow(const std::string& hash) {
  return {.hash = hash,
          .name = "softmax",
          .spec_name = "softmax.textproto",
          .spec_text = "name: 'softmax'\n# \xc3\xa9\n",
          .files = {{"softmax.cu", "kernel text"}, {"empty.cuh", ""}}};
}

inline Problem MakeProblem(int64_t rows) {
  return {.dims = {{"rows", rows}, {"cols", 4096}, {"a_first_by_name", 1}}, .dtype = DType::kBF16};
}

inline SweepRow MakeSweepRow(const std::string& kernel_hash) {
  return {.job = {.kind = JobKind::kSweep,
                  .state = JobState::kRunning,
                  .priority = JobPriority::kBackground,
                  .owner = "uid 7",
                  .subject = "softmax rows=8192",
                  .device_id = "cuda:3",
                  .message = "half way",
                  .created_unix_ms = 1700000000123,
                  .started_unix_ms = 1700000000200,
                  .finished_unix_ms = 1700000000456},
          .kernel_hash = kernel_hash,
          .kernel_name = "softmax",
          .problem = MakeProblem(8192),
          .device_name = "NVIDIA H200",
          .target = "sm_90a",
          .strategy = "random",
          .budget_trials = 200,
          .budget_seconds = 30.5,
          .seed = 0xfedcba9876543210,
          .cache_mode = CacheMode::kWarm,
          .fresh = true,
          .idempotency_key = "key 1"};
}

inline TrialKey MakeTrialKey(const std::string& kernel_hash) {
  return {.kernel_hash = kernel_hash,
          .problem = MakeProblem(8192),
          .device_name = "NVIDIA H200",
          .target = "sm_90a",
          .driver = "575.57",
          .compiler = "NVRTC 13.0",
          .cache_mode = CacheMode::kWarm};
}

inline Config MakeConfig(int64_t block) {
  return {{{"BLOCK", block}, {"UNROLL", true}, {"A_FACTOR", 1.0}, {"STORE", std::string("smem")}}};
}

// An ok trial.
inline Trial MakeTrial(int64_t sweep_id, int64_t block = 64) {
  Trial trial{.sweep_id = sweep_id, .config = MakeConfig(block), .message = "a note"};
  trial.measurement = {.latency_ns_median = 1000.125,
                       .latency_ns_low = 999.5,
                       .latency_ns_high = 1001.5,
                       .latency_ns_min = 990.25,
                       .latency_ns_mean = 1002.75,
                       .clock = Clock::kCupti,
                       .cache_mode = CacheMode::kWarm,
                       .bytes_per_second = 4.1e12,
                       .flops_per_second = 3.5e14,
                       .peak_fraction = 0.91,
                       .stopped_early = true,
                       .samples_ns = {1000.125, 0.1, 1e300, 5e-324, -0.0}};
  trial.resources = {.registers = 168,
                     .spill_bytes = 8,
                     .stack_bytes = 16,
                     .static_shared_bytes = 1024,
                     .dynamic_shared_bytes = 232448,
                     .binary_bytes = 54321,
                     .binary_sha256 = "abc123"};
  trial.telemetry = {.sm_clock_mhz = 1980,
                     .memory_clock_mhz = 3201,
                     .power_mw = 690123,
                     .temperature_c = 61,
                     .throttle_reasons = 0x8000000000000004,
                     .compute_processes = 2};
  trial.error = {.max_abs = 0.001,
                 .max_rel = 0.002,
                 .relative_l2 = 0.0003,
                 .bad_elements = 7,
                 .worst = "out[5]: 1 is not 2"};
  trial.compile_seconds = 0.75;
  trial.compile_cached = true;
  trial.evaluate_seconds = 0.0625;
  trial.finished_unix_ms = 1700000000789;
  return trial;
}

// A trial that confirms a winner: the only kind that makes a record.
inline Trial MakeConfirmed(int64_t sweep_id, int64_t block = 64) {
  Trial trial = MakeTrial(sweep_id, block);
  trial.purpose = TrialPurpose::kConfirm;
  return trial;
}

// The URL of a server for tests of the store in PostgreSQL (tests/postgres.py); null: they are of
// SQLite.
inline const char* PostgresForTests() { return std::getenv("TUNE_TEST_POSTGRES"); }

// PostgreSQL has no INSERT OR REPLACE.
inline bool IsOfSqliteAlone(const std::string& sql) {
  return PostgresForTests() != nullptr && sql.starts_with("INSERT OR REPLACE");
}

// Runs SQL beside the store, as a person would: returns the error, or "".
inline std::string RunSql(const std::string& store, const std::string& sql) {
  absl::Status status;
  if (IsPostgresUrl(store)) {
    status = PostgresConnection::Open({.url = store}).value()->Execute(sql);
  } else {
    using Mode = SqliteConnection::Mode;
    status = SqliteConnection::Open(store, Mode::kReadWriteCreate).value()->Execute(sql);
  }
  return std::string(status.message());
}

// A fresh folder, removed at the end of the test, or an empty database.
class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "tune_store_XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    if (PostgresForTests() == nullptr) return;
    path_ = PostgresForTests();
    EXPECT_EQ(RunSql(path_, "DROP SCHEMA IF EXISTS tunectl CASCADE"), "");
  }
  ~StoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return path_.empty() ? absl::StrCat(folder_, "/tune.db") : path_; }

  // Opens the store, closing the one before. Fails the test if it does not open.
  Store& Reopen() {
    store_.reset();
    absl::StatusOr<std::unique_ptr<Store>> opened = Store::Open(path());
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) std::abort();
    store_ = *std::move(opened);
    return *store_;
  }

  // A store with one kernel ("k1") and one sweep.
  Store& OpenWithSweep() {
    Store& store = Reopen();
    EXPECT_TRUE(store.PutKernel(MakeKernelRow("k1")).ok());
    sweep_ = store.AddSweep(MakeSweepRow("k1")).value();
    return store;
  }

  std::string folder_;
  std::string path_;
  std::unique_ptr<Store> store_;
  SweepRow sweep_;
};

// Tests of the file itself.
class StoreFileTest : public StoreTest {};

}  // namespace tune::db
