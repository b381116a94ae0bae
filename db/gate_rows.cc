// SPDX-License-Identifier: Apache-2.0
// SqliteStore's calls about gate runs and baselines.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "db/gate.h"
#include "db/json.h"
#include "db/rows.h"
#include "db/sqlite_store.h"
#include "tuner/status_macros.h"

namespace tune::db {
namespace {

constexpr uint32_t kListedMax = 10000;

constexpr char kRunColumns[] =
    "gate_run.kind, device_name, device_uuid, target, driver, compiler, cache_mode, base_label, "
    "head_label, delta0, delta_max, alpha, screen_rounds, guarded_deviation_max, "
    "clock_difference_max, seed";
constexpr char kKernelColumns[] =
    "id, run_id, name, base_kernel_hash, head_kernel_hash, dims, dtype, base_config, head_config, "
    "config_source, recovery_config, tolerance, base_code, head_code, identical, fault";
constexpr char kLegColumns[] =
    "id, gate_kernel_id, stage, round, revision, outcome, message, median_ns, clock, "
    "sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, throttle_reasons, "
    "compute_processes, samples_ns";
constexpr char kVerdictColumns[] =
    "gate_kernel_id, verdict, reason, ratio, ratio_low, ratio_high, deviation, least_caught, "
    "rounds, invalid_rounds, flagged, improved, p, p_needed, clock_log_ratio, autocorrelation, "
    "bimodal";

absl::StatusOr<GateRunRow> ReadRun(Statement& row) {
  GateRunRow run;
  gate::Rules& rules = run.rules;
  row.Read(run.id);
  ASSIGN_OR_RETURN(run.job, ReadJob(row));
  row.Read(run.kind, run.device_name, run.device_uuid, run.target, run.driver, run.compiler,
           run.cache_mode, run.base_label, run.head_label, rules.delta0, rules.delta_max,
           rules.alpha, rules.screen_rounds, rules.guarded_deviation_max,
           rules.clock_difference_max, run.seed);
  return run;
}

std::string SelectRuns() {
  return absl::StrCat("SELECT gate_run.id, ", kJobColumns, ", ", kRunColumns,
                      " FROM gate_run JOIN job ON job.id = gate_run.job_id ");
}

absl::StatusOr<GateKernelRow> ReadKernel(Statement& row) {
  GateKernelRow kernel;
  row.Read(kernel.id, kernel.run_id, kernel.name, kernel.base_kernel_hash, kernel.head_kernel_hash);
  RETURN_IF_ERROR(ReadProblem(row, kernel.problem));
  ASSIGN_OR_RETURN(kernel.base_config, DecodeConfig(row.ReadView()));
  ASSIGN_OR_RETURN(kernel.head_config, DecodeConfig(row.ReadView()));
  row.Read(kernel.config_source);
  ASSIGN_OR_RETURN(kernel.recovery_config, DecodeConfig(row.ReadView()));
  row.Read(kernel.tolerance, kernel.base_code, kernel.head_code, kernel.identical, kernel.fault);
  if (std::isnan(kernel.tolerance)) kernel.tolerance = -1;
  return kernel;
}

absl::StatusOr<GateLegRow> ReadLeg(Statement& row) {
  GateLegRow leg;
  Telemetry& telemetry = leg.leg.telemetry;
  row.Read(leg.id, leg.gate_kernel_id, leg.stage, leg.round, leg.leg.revision, leg.outcome,
           leg.message, leg.leg.median_ns, leg.leg.clock, telemetry.sm_clock_mhz,
           telemetry.memory_clock_mhz, telemetry.power_mw, telemetry.temperature_c,
           telemetry.throttle_reasons, telemetry.compute_processes);
  leg.leg.samples_ns = DecodeSamples(row.ReadView());
  return leg;
}

absl::StatusOr<GateVerdictRow> ReadVerdict(Statement& row) {
  GateVerdictRow verdict;
  gate::Judgement& judgement = verdict.judgement;
  row.Read(verdict.gate_kernel_id, judgement.verdict, judgement.reason, judgement.ratio,
           judgement.ratio_low, judgement.ratio_high, judgement.deviation, judgement.least_caught,
           judgement.rounds, judgement.invalid_rounds, judgement.flagged, judgement.improved,
           judgement.p, judgement.p_needed, judgement.clock_log_ratio, judgement.autocorrelation,
           judgement.bimodal);
  return verdict;
}

absl::StatusOr<BaselineRow> ReadBaseline(Statement& row) {
  BaselineRow baseline;
  row.Read(baseline.name, baseline.kernel_name, baseline.kernel_hash, baseline.label,
           baseline.set_unix_ms);
  return baseline;
}

absl::Status InsertLeg(Connection& connection, const GateLegRow& row) {
  const std::string samples = EncodeSamples(row.leg.samples_ns);
  const Telemetry& telemetry = row.leg.telemetry;
  Statement insert = connection.Prepare(
      absl::StrCat("INSERT INTO gate_leg (", kLegColumns,
                   ") VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(row.gate_kernel_id, row.stage, row.round, row.leg.revision, row.outcome, row.message,
              row.leg.median_ns, row.leg.clock, telemetry.sm_clock_mhz, telemetry.memory_clock_mhz,
              telemetry.power_mw, telemetry.temperature_c, telemetry.throttle_reasons,
              telemetry.compute_processes, Blob{samples});
  return insert.Run();
}

}  // namespace

absl::StatusOr<int64_t> SqliteStore::AddGateRun(const GateRunRow& run) {
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    const gate::Rules& rules = run.rules;
    Statement insert = connection.Prepare(
        "INSERT INTO gate_run (job_id, kind, device_name, device_uuid, target, driver, compiler, "
        "cache_mode, base_label, head_label, delta0, delta_max, alpha, screen_rounds, "
        "guarded_deviation_max, clock_difference_max, seed) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    insert.Bind(run.job.id, run.kind, run.device_name, run.device_uuid, run.target, run.driver,
                run.compiler, run.cache_mode, run.base_label, run.head_label, rules.delta0,
                rules.delta_max, rules.alpha, rules.screen_rounds, rules.guarded_deviation_max,
                rules.clock_difference_max, run.seed);
    RETURN_IF_ERROR(insert.Run());
    return connection.last_insert_id();
  });
}

absl::StatusOr<GateRunRow> SqliteStore::GetGateRun(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement find =
      reader->Prepare(absl::StrCat(SelectRuns(), "WHERE gate_run.id = ?"));
  ASSIGN_OR_RETURN(bool found, find.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no gate run ", id));
  return ReadRun(find);
}

absl::StatusOr<std::vector<GateRunRow>> SqliteStore::ListGateRuns(uint32_t limit) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query =
      reader->Prepare(absl::StrCat(SelectRuns(), "ORDER BY gate_run.id DESC LIMIT ?"));
  return ReadReadable(query.Bind(std::min(limit, kListedMax)), ReadRun, unreadable_, "gate_run");
}

absl::StatusOr<int64_t> SqliteStore::AddGateKernel(const GateKernelRow& kernel) {
  ASSIGN_OR_RETURN(std::string dims, EncodeDims(kernel.problem.dims));
  ASSIGN_OR_RETURN(std::string base_config, EncodeConfig(kernel.base_config));
  ASSIGN_OR_RETURN(std::string head_config, EncodeConfig(kernel.head_config));
  ASSIGN_OR_RETURN(std::string recovery_config, EncodeConfig(kernel.recovery_config));
  const double tolerance = kernel.tolerance < 0 ? std::nan("") : kernel.tolerance;
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    Statement insert = connection.Prepare(
        absl::StrCat("INSERT INTO gate_kernel (", kKernelColumns,
                     ") VALUES (NULL, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    insert.Bind(kernel.run_id, kernel.name, kernel.base_kernel_hash, kernel.head_kernel_hash, dims,
                ToText(kernel.problem.dtype), base_config, head_config, kernel.config_source,
                recovery_config, tolerance, kernel.base_code, kernel.head_code, kernel.identical,
                kernel.fault);
    RETURN_IF_ERROR(insert.Run());
    return connection.last_insert_id();
  });
}

absl::StatusOr<std::vector<GateKernelRow>> SqliteStore::GateKernels(int64_t run_id) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", kKernelColumns, " FROM gate_kernel WHERE run_id = ? ORDER BY id"));
  return ReadAll(query.Bind(run_id), ReadKernel);
}

absl::StatusOr<std::vector<GateKernelRow>> SqliteStore::GateKernelsNamed(const std::string& name) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", kKernelColumns, " FROM gate_kernel WHERE name = ? ORDER BY id"));
  return ReadAll(query.Bind(name), ReadKernel);
}

absl::Status SqliteStore::AppendGateLegs(const std::vector<GateLegRow>& legs) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const GateLegRow& leg : legs) RETURN_IF_ERROR(InsertLeg(connection, leg));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<GateLegRow>> SqliteStore::GateLegs(int64_t gate_kernel_id) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", kLegColumns, " FROM gate_leg WHERE gate_kernel_id = ? ORDER BY id"));
  return ReadAll(query.Bind(gate_kernel_id), ReadLeg);
}

absl::Status SqliteStore::AddGateVerdicts(const std::vector<GateVerdictRow>& verdicts) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const auto& [id, judgement] : verdicts) {
      Statement insert = connection.Prepare(
          absl::StrCat("INSERT INTO gate_verdict (", kVerdictColumns,
                       ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
      insert.Bind(id, judgement.verdict, judgement.reason, judgement.ratio, judgement.ratio_low,
                  judgement.ratio_high, judgement.deviation, judgement.least_caught,
                  judgement.rounds, judgement.invalid_rounds, judgement.flagged, judgement.improved,
                  judgement.p, judgement.p_needed, judgement.clock_log_ratio,
                  judgement.autocorrelation, judgement.bimodal);
      RETURN_IF_ERROR(insert.Run());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<GateVerdictRow>> SqliteStore::GateVerdicts(int64_t run_id) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", kVerdictColumns,
                   " FROM gate_verdict WHERE gate_kernel_id IN "
                   "(SELECT id FROM gate_kernel WHERE run_id = ?) ORDER BY gate_kernel_id"));
  return ReadAll(query.Bind(run_id), ReadVerdict);
}

absl::Status SqliteStore::SetBaseline(const BaselineRow& baseline) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    Statement put = connection.Prepare(
        "INSERT INTO baseline (name, kernel_name, kernel_hash, label, set_unix_ms) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT (name, kernel_name) DO UPDATE SET "
        "kernel_hash = excluded.kernel_hash, label = excluded.label, "
        "set_unix_ms = excluded.set_unix_ms");
    put.Bind(baseline.name, baseline.kernel_name, baseline.kernel_hash, baseline.label,
             baseline.set_unix_ms);
    return put.Run();
  });
}

absl::StatusOr<std::vector<BaselineRow>> SqliteStore::Baselines() {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      "SELECT name, kernel_name, kernel_hash, label, set_unix_ms FROM baseline "
      "ORDER BY name, kernel_name");
  return ReadAll(query, ReadBaseline);
}

}  // namespace tune::db
