// SPDX-License-Identifier: Apache-2.0
#include "db/rows.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/json.h"
#include "tuner/status_macros.h"

namespace tune::db {
namespace {

// In the order of ReadSweep.
constexpr char kSweepColumns[] =
    "sweep.kernel_hash, kernel.name, sweep.dims, sweep.dtype, sweep.device_name, sweep.target, "
    "sweep.strategy, sweep.budget_trials, sweep.budget_seconds, sweep.seed, sweep.cache_mode, "
    "sweep.fresh, sweep.idempotency_key, sweep.best_trial_id, sweep.default_trial_id, "
    "sweep.tie_trial_ids, sweep.summary";

// In the order of ReadTrial and InsertTrial; all of table trial but its id, key and samples.
constexpr char kTrialColumns[] =
    "sweep_id, purpose, config, outcome, message, finished_unix_ms, latency_ns_median, "
    "latency_ns_low, latency_ns_high, latency_ns_min, latency_ns_mean, clock, bytes_per_second, "
    "flops_per_second, peak_fraction, stopped_early, registers, spill_bytes, stack_bytes, "
    "static_shared_bytes, dynamic_shared_bytes, binary_bytes, binary_sha256, sm_clock_mhz, "
    "memory_clock_mhz, power_mw, temperature_c, throttle_reasons, compute_processes, "
    "error_max_abs, error_max_rel, error_relative_l2, error_bad_elements, error_worst, "
    "compile_seconds, compile_cached, evaluate_seconds";
constexpr char kTrialParameters[] =
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?";

constexpr char kShortMessage[] = " substr(message, 1, 500),";

// In the order of ReadTrialKey.
constexpr char kTrialKeyColumns[] =
    "trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name, "
    "trial_key.target, trial_key.driver, trial_key.compiler, trial_key.cache_mode";

// Whole characters of at most `limit` bytes.
absl::string_view Prefix(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

}  // namespace

absl::Status ReadProblem(Statement& row, Problem& problem) {
  std::string dtype;
  const absl::string_view dims = row.ReadView();
  ASSIGN_OR_RETURN(problem.dims, DecodeDims(dims));
  row.Read(dtype);
  absl::StatusOr<DType> parsed = ParseDType(dtype);
  if (!parsed.ok()) return absl::DataLossError(parsed.status().message());
  problem.dtype = *parsed;
  return absl::OkStatus();
}

std::string SelectSweeps() {
  return absl::StrCat("SELECT sweep.id, ", kJobColumns, ", ", kSweepColumns,
                      " FROM sweep JOIN kernel ON kernel.hash = sweep.kernel_hash "
                      "JOIN job ON job.id = sweep.job_id ");
}

absl::StatusOr<SweepRow> ReadSweep(Statement& row) {
  SweepRow sweep;
  row.Read(sweep.id);
  ASSIGN_OR_RETURN(sweep.job, ReadJob(row));
  row.Read(sweep.kernel_hash, sweep.kernel_name);
  RETURN_IF_ERROR(ReadProblem(row, sweep.problem));
  row.Read(sweep.device_name, sweep.target, sweep.strategy, sweep.budget_trials,
           sweep.budget_seconds, sweep.seed, sweep.cache_mode, sweep.fresh, sweep.idempotency_key,
           sweep.best_trial_id, sweep.default_trial_id);
  ASSIGN_OR_RETURN(sweep.tie_trial_ids, DecodeIds(row.ReadView()));
  row.Read(sweep.summary);
  return sweep;
}

std::string SelectTrials(Samples samples) {
  const bool all = samples == Samples::kLoad;
  return absl::StrCat(
      "SELECT trial.id, trial_key.cache_mode, ", all ? "samples_ns, " : "NULL, ",
      all ? kTrialColumns : absl::StrReplaceAll(kTrialColumns, {{" message,", kShortMessage}}),
      " FROM trial JOIN trial_key ON trial_key.id = trial.key_id ");
}

absl::StatusOr<Trial> ReadTrial(Statement& row) {
  Trial trial;
  Measurement& measurement = trial.measurement;
  row.Read(trial.id, measurement.cache_mode);
  measurement.samples_ns = DecodeSamples(row.ReadView());
  row.Read(trial.sweep_id, trial.purpose);
  ASSIGN_OR_RETURN(trial.config, DecodeConfig(row.ReadView()));
  row.Read(trial.outcome, trial.message, trial.finished_unix_ms);
  row.Read(measurement.latency_ns_median, measurement.latency_ns_low, measurement.latency_ns_high,
           measurement.latency_ns_min, measurement.latency_ns_mean, measurement.clock,
           measurement.bytes_per_second, measurement.flops_per_second, measurement.peak_fraction,
           measurement.stopped_early);
  Resources& resources = trial.resources;
  row.Read(resources.registers, resources.spill_bytes, resources.stack_bytes,
           resources.static_shared_bytes, resources.dynamic_shared_bytes, resources.binary_bytes,
           resources.binary_sha256);
  Telemetry& telemetry = trial.telemetry;
  row.Read(telemetry.sm_clock_mhz, telemetry.memory_clock_mhz, telemetry.power_mw,
           telemetry.temperature_c, telemetry.throttle_reasons, telemetry.compute_processes);
  ResultError& error = trial.error;
  row.Read(error.max_abs, error.max_rel, error.relative_l2, error.bad_elements, error.worst);
  row.Read(trial.compile_seconds, trial.compile_cached, trial.evaluate_seconds);
  return trial;
}

std::string SelectTrialKeys() {
  return absl::StrCat("SELECT ", kTrialKeyColumns,
                      " FROM trial JOIN trial_key ON trial_key.id = trial.key_id ");
}

std::string SelectKeysOfKernels() {
  return absl::StrCat("SELECT ", kTrialKeyColumns,
                      " FROM trial_key JOIN kernel ON kernel.hash = trial_key.kernel_hash ");
}

absl::StatusOr<TrialKey> ReadTrialKey(Statement& row) {
  TrialKey key;
  row.Read(key.kernel_hash);
  RETURN_IF_ERROR(ReadProblem(row, key.problem));
  row.Read(key.device_name, key.target, key.driver, key.compiler, key.cache_mode);
  return key;
}

std::string SelectCurrentRecords() {
  return absl::StrCat(
      "SELECT current_record.id, current_record.default_latency_ns, current_record.tie_count, "
      "current_record.published_unix_ms, kernel.name, trial_key.kernel_hash, trial_key.dims, "
      "trial_key.dtype, trial_key.device_name, trial_key.target, trial_key.driver, "
      "trial_key.compiler, length(samples_ns) / 8, "
      "(SELECT seed FROM sweep WHERE sweep.id = trial.sweep_id), "
      "(SELECT json_group_array(json_array(tie.config, tie.latency_ns_median)) "
      "FROM sweep, json_each(CASE json_valid(sweep.tie_trial_ids) WHEN 1 THEN sweep.tie_trial_ids "
      "ELSE '[]' END) AS tied JOIN trial AS tie ON tie.id = tied.value "
      "WHERE sweep.id = trial.sweep_id), trial.id, trial_key.cache_mode, NULL, ",
      kTrialColumns,
      " FROM current_record JOIN trial ON trial.id = current_record.trial_id "
      "JOIN trial_key ON trial_key.id = trial.key_id "
      "JOIN kernel ON kernel.hash = trial_key.kernel_hash ");
}

absl::StatusOr<RecordRow> ReadRecord(Statement& row) {
  RecordRow record;
  row.Read(record.id, record.default_latency_ns, record.tie_count, record.published_unix_ms,
           record.kernel_name, record.key.kernel_hash);
  RETURN_IF_ERROR(ReadProblem(row, record.key.problem));
  row.Read(record.key.device_name, record.key.target, record.key.driver, record.key.compiler,
           record.sample_count, record.seed);
  ASSIGN_OR_RETURN(auto ties, DecodeTies(row.ReadView()));
  for (auto& [config, latency_ns] : ties) record.ties.push_back({std::move(config), latency_ns});
  ASSIGN_OR_RETURN(record.trial, ReadTrial(row));
  record.key.cache_mode = record.trial.measurement.cache_mode;
  return record;
}

absl::StatusOr<int64_t> FindTrialKey(Connection& connection, const TrialKey& key) {
  ASSIGN_OR_RETURN(std::string dims, EncodeDims(key.problem.dims));
  Statement find = connection.Prepare(
      "SELECT id FROM trial_key WHERE kernel_hash = ? AND dims = ? AND dtype = ? AND "
      "device_name = ? AND target = ? AND cache_mode = ? AND driver = ? AND compiler = ?");
  find.Bind(key.kernel_hash, dims, ToText(key.problem.dtype), key.device_name, key.target,
            key.cache_mode, key.driver, key.compiler);
  ASSIGN_OR_RETURN(bool found, find.Step());
  int64_t id = 0;
  if (found) find.Read(id);
  return id;
}

absl::StatusOr<int64_t> AddTrialKey(Connection& connection, const TrialKey& key) {
  ASSIGN_OR_RETURN(int64_t id, FindTrialKey(connection, key));
  if (id != 0) return id;
  ASSIGN_OR_RETURN(std::string dims, EncodeDims(key.problem.dims));
  Statement insert = connection.Prepare(
      "INSERT INTO trial_key (kernel_hash, dims, dtype, device_name, target, cache_mode, driver, "
      "compiler) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  insert.Bind(key.kernel_hash, dims, ToText(key.problem.dtype), key.device_name, key.target,
              key.cache_mode, key.driver, key.compiler);
  RETURN_IF_ERROR(insert.Run());
  return connection.last_insert_id();
}

absl::Status InsertTrial(Connection& connection, const Trial& trial, int64_t key_id) {
  ASSIGN_OR_RETURN(std::string config, EncodeConfig(trial.config));
  const std::string samples = EncodeSamples(trial.measurement.samples_ns);
  const Measurement& measurement = trial.measurement;
  const Resources& resources = trial.resources;
  const Telemetry& telemetry = trial.telemetry;
  const ResultError& error = trial.error;
  Statement insert =
      connection.Prepare(absl::StrCat("INSERT INTO trial (key_id, samples_ns, ", kTrialColumns,
                                      ") VALUES (?, ?, ", kTrialParameters, ")"));
  insert.Bind(key_id, Blob{samples}, trial.sweep_id, trial.purpose, config, trial.outcome,
              Prefix(trial.message, kMaxTrialMessageBytes), trial.finished_unix_ms);
  insert.Bind(measurement.latency_ns_median, measurement.latency_ns_low,
              measurement.latency_ns_high, measurement.latency_ns_min, measurement.latency_ns_mean,
              measurement.clock, measurement.bytes_per_second, measurement.flops_per_second,
              measurement.peak_fraction, measurement.stopped_early);
  insert.Bind(resources.registers, resources.spill_bytes, resources.stack_bytes,
              resources.static_shared_bytes, resources.dynamic_shared_bytes, resources.binary_bytes,
              resources.binary_sha256);
  insert.Bind(telemetry.sm_clock_mhz, telemetry.memory_clock_mhz, telemetry.power_mw,
              telemetry.temperature_c, telemetry.throttle_reasons, telemetry.compute_processes);
  insert.Bind(error.max_abs, error.max_rel, error.relative_l2, error.bad_elements, error.worst);
  insert.Bind(trial.compile_seconds, trial.compile_cached, trial.evaluate_seconds);
  return insert.Run();
}

}  // namespace tune::db
