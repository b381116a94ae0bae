// SPDX-License-Identifier: Apache-2.0
// The store's ceilings, calibrations and profiles.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/json.h"
#include "db/rows.h"
#include "db/sqlite_store.h"
#include "tuner/status_macros.h"

namespace tune::db {
namespace {

constexpr uint32_t kMaxListedProfiles = 10000;

// In the order of ReadCeiling and InsertCeiling.
constexpr char kCeilingColumns[] =
    "device_name, driver, uuid, name, value, low, high, measured, kind, policy, process_count, "
    "process_values, probe, theoretical, sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, "
    "throttle_reasons, compute_processes, note, measured_unix_ms";

// In the order of ReadProfile and InsertProfile, less id, trial and key.
constexpr char kProfileColumns[] =
    "config, metric_set, outcome, message, counted, chip, pass_count, reading_count, "
    "profiled_unix_ms, latency_ns_median, latency_ns_low, latency_ns_high, sample_count, clock, "
    "work_flops, work_bytes, work_peak, write_back_debt_bytes, registers, spill_bytes, "
    "static_shared_bytes, dynamic_shared_bytes, quantities, counters, notes";

std::string Qualified(absl::string_view columns, absl::string_view table) {
  std::string text = absl::StrCat(table, ".");
  for (const char c : columns) {
    text += c;
    if (c == ' ') absl::StrAppend(&text, table, ".");
  }
  return text;
}

absl::Status InsertCeiling(Connection& connection, const CeilingRow& row) {
  const Ceiling& ceiling = row.ceiling;
  const Telemetry& telemetry = ceiling.telemetry;
  const std::string values = EncodeSamples(row.process_values);
  Statement insert = connection.Prepare(
      absl::StrCat("INSERT INTO ceiling_measurement (", kCeilingColumns,
                   ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(row.device_name, row.driver, row.uuid, ceiling.name, ceiling.value, ceiling.low,
              ceiling.high, ceiling.measured, ceiling.kind, ceiling.policy, ceiling.process_count,
              Blob{values}, ceiling.probe, ceiling.theoretical);
  insert.Bind(telemetry.sm_clock_mhz, telemetry.memory_clock_mhz, telemetry.power_mw,
              telemetry.temperature_c, telemetry.throttle_reasons, telemetry.compute_processes,
              ceiling.note, row.measured_unix_ms);
  return insert.Run();
}

absl::StatusOr<CeilingRow> ReadCeiling(Statement& query) {
  CeilingRow row;
  Ceiling& ceiling = row.ceiling;
  Telemetry& telemetry = ceiling.telemetry;
  query.Read(row.device_name, row.driver, row.uuid, ceiling.name, ceiling.value, ceiling.low,
             ceiling.high, ceiling.measured, ceiling.kind, ceiling.policy, ceiling.process_count);
  row.process_values = DecodeSamples(query.ReadView());
  query.Read(ceiling.probe, ceiling.theoretical, telemetry.sm_clock_mhz,
             telemetry.memory_clock_mhz, telemetry.power_mw, telemetry.temperature_c,
             telemetry.throttle_reasons, telemetry.compute_processes, ceiling.note,
             row.measured_unix_ms);
  // Rows of an older schema have no such figures, which reads as not-a-number.
  for (double* value : {&ceiling.low, &ceiling.high, &ceiling.theoretical}) {
    if (!(*value > 0)) *value = 0;
  }
  return row;
}

absl::Status InsertProfile(Connection& connection, int64_t key_id, const Profile& profile) {
  ASSIGN_OR_RETURN(std::string config, EncodeConfig(profile.config));
  Statement insert = connection.Prepare(absl::StrCat(
      "INSERT INTO profile (trial_id, key_id, ", kProfileColumns,
      ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "?)"));
  const Measurement& measurement = profile.measurement;
  const Resources& resources = profile.resources;
  insert.Bind(OptionalId{profile.trial_id}, key_id, config, profile.set, profile.outcome,
              profile.message, profile.counted, profile.chip, profile.pass_count,
              profile.reading_count, profile.profiled_unix_ms);
  insert.Bind(measurement.latency_ns_median, measurement.latency_ns_low,
              measurement.latency_ns_high, profile.sample_count, measurement.clock,
              profile.work.flops, profile.work.bytes, profile.work.peak,
              profile.write_back_debt_bytes);
  insert.Bind(resources.registers, resources.spill_bytes, resources.static_shared_bytes,
              resources.dynamic_shared_bytes, EncodeQuantities(profile.quantities),
              EncodeReadings(profile.counters), EncodeTexts(profile.notes));
  return insert.Run();
}

absl::StatusOr<ProfileRow> ReadProfile(Statement& query) {
  ProfileRow row;
  Profile& profile = row.profile;
  query.Read(profile.id, profile.trial_id, profile.sweep_id, row.kernel_name, row.key.kernel_hash);
  RETURN_IF_ERROR(ReadProblem(query, row.key.problem));
  query.Read(row.key.device_name, row.key.target, row.key.driver, row.key.compiler,
             row.key.cache_mode);
  ASSIGN_OR_RETURN(profile.config, DecodeConfig(query.ReadView()));
  query.Read(profile.set, profile.outcome, profile.message, profile.counted, profile.chip,
             profile.pass_count, profile.reading_count, profile.profiled_unix_ms);
  Measurement& measurement = profile.measurement;
  query.Read(measurement.latency_ns_median, measurement.latency_ns_low,
             measurement.latency_ns_high, profile.sample_count, measurement.clock,
             profile.work.flops, profile.work.bytes, profile.work.peak,
             profile.write_back_debt_bytes);
  measurement.cache_mode = row.key.cache_mode;
  Resources& resources = profile.resources;
  query.Read(resources.registers, resources.spill_bytes, resources.static_shared_bytes,
             resources.dynamic_shared_bytes);
  ASSIGN_OR_RETURN(profile.quantities, DecodeQuantities(query.ReadView()));
  ASSIGN_OR_RETURN(profile.counters, DecodeReadings(query.ReadView()));
  ASSIGN_OR_RETURN(profile.notes, DecodeTexts(query.ReadView()));
  return row;
}

absl::StatusOr<CalibrationEntry> ReadEntry(Statement& query) {
  CalibrationEntry entry;
  query.Read(entry.name, entry.quantity, entry.counter, entry.expected, entry.counted,
             entry.multiplier, entry.tolerance, entry.passed, entry.message);
  return entry;
}

}  // namespace

absl::Status SqliteStore::PutCeilings(const std::vector<CeilingRow>& ceilings) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const CeilingRow& row : ceilings) RETURN_IF_ERROR(InsertCeiling(connection, row));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<CeilingRow>> SqliteStore::GetCeilings(const std::string& device_name,
                                                                 const std::string& driver,
                                                                 const std::string& uuid) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(
      absl::StrCat("SELECT ", kCeilingColumns,
                   " FROM ceiling_measurement WHERE id IN (SELECT max(id) FROM ceiling_measurement "
                   "WHERE device_name = ? AND (? = '' OR driver = ?) "
                   "AND (? = '' OR uuid IN (?, '')) GROUP BY name) ORDER BY name"));
  query.Bind(device_name, driver, driver, uuid, uuid);
  return ReadAll(query, ReadCeiling);
}

absl::StatusOr<int64_t> SqliteStore::AppendProfile(const ProfileRow& row) {
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(int64_t key_id, AddTrialKey(connection, row.key));
    RETURN_IF_ERROR(InsertProfile(connection, key_id, row.profile));
    return connection.last_insert_id();
  });
}

absl::StatusOr<std::vector<ProfileRow>> SqliteStore::ListProfiles(const ProfileFilter& filter) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement query = reader->Prepare(absl::StrCat(
      "SELECT profile.id, coalesce(profile.trial_id, 0), coalesce(trial.sweep_id, 0), kernel.name, "
      "trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name, "
      "trial_key.target, trial_key.driver, trial_key.compiler, trial_key.cache_mode, ",
      Qualified(kProfileColumns, "profile"),
      " FROM profile JOIN trial_key ON trial_key.id = profile.key_id "
      "JOIN kernel ON kernel.hash = trial_key.kernel_hash "
      "LEFT JOIN trial ON trial.id = profile.trial_id "
      "WHERE (? = 0 OR trial.sweep_id = ?) AND (? = 0 OR profile.trial_id = ?) "
      "AND (? = '' OR kernel.name = ?) AND (? = '' OR trial_key.kernel_hash = ?) "
      "AND (? = '' OR trial_key.device_name = ?) ORDER BY profile.id DESC LIMIT ?"));
  query.Bind(filter.sweep_id, filter.sweep_id, filter.trial_id, filter.trial_id,
             filter.kernel_name, filter.kernel_name, filter.kernel_hash, filter.kernel_hash,
             filter.device_name, filter.device_name, std::min(filter.limit, kMaxListedProfiles));
  return ReadAll(query, ReadProfile);
}

absl::StatusOr<int64_t> SqliteStore::AppendCalibration(const CalibrationRow& row) {
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    {
      Statement insert = connection.Prepare(
          "INSERT INTO calibration (device_name, chip, driver, uuid, measured_unix_ms) "
          "VALUES (?, ?, ?, ?, ?)");
      insert.Bind(row.device_name, row.chip, row.driver, row.uuid, row.measured_unix_ms);
      RETURN_IF_ERROR(insert.Run());
    }
    const int64_t id = connection.last_insert_id();
    for (const CalibrationEntry& entry : row.entries) {
      Statement insert = connection.Prepare(
          "INSERT INTO calibration_entry (calibration_id, name, quantity, counter, expected, "
          "counted, multiplier, tolerance, passed, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
      insert.Bind(id, entry.name, entry.quantity, entry.counter, entry.expected, entry.counted,
                  entry.multiplier, entry.tolerance, entry.passed, entry.message);
      RETURN_IF_ERROR(insert.Run());
    }
    return id;
  });
}

absl::StatusOr<CalibrationRow> SqliteStore::LatestCalibration(const std::string& device_name,
                                                              const std::string& chip) {
  ASSIGN_OR_RETURN(Readers::Lease reader, readers_.Borrow());
  Statement find = reader->Prepare(
      "SELECT id, device_name, chip, driver, uuid, measured_unix_ms FROM calibration "
      "WHERE (? = '' OR device_name = ?) AND (? = '' OR chip = ?) ORDER BY id DESC LIMIT 1");
  find.Bind(device_name, device_name, chip, chip);
  ASSIGN_OR_RETURN(bool found, find.Step());
  if (!found) {
    return absl::NotFoundError(absl::StrCat("no calibration of ",
                                            device_name.empty() ? chip : device_name));
  }
  CalibrationRow row;
  find.Read(row.id, row.device_name, row.chip, row.driver, row.uuid, row.measured_unix_ms);
  Statement entries = reader->Prepare(
      "SELECT name, quantity, counter, expected, counted, multiplier, tolerance, passed, message "
      "FROM calibration_entry WHERE calibration_id = ? ORDER BY rowid");
  ASSIGN_OR_RETURN(row.entries, ReadAll(entries.Bind(row.id), ReadEntry));
  return row;
}

}  // namespace tune::db
