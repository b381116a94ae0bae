// SPDX-License-Identifier: Apache-2.0
// The store's legs, ceilings, calibrations and profiles.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/columns.h"
#include "db/rows.h"
#include "db/sql_store.h"

namespace tune::db {
namespace {

constexpr uint32_t kMaxListedProfiles = 10000;

constexpr Exceptions kInsertedLeg = {{"id"},
                                     {"gate_kernel_id", "gate_kernel_id", "nullif(?, 0)"},
                                     {"compared_id", "compared_id", "nullif(?, 0)"}};

constexpr Exceptions kInsertedCeiling = {{"source", "measured", "? - 1"}};
// Rows of an older schema have no such figures.
constexpr Exceptions kSelectedCeiling = {{"source", "measured + 1"},
                                         {"low", "coalesce(low, 0)"},
                                         {"high", "coalesce(high, 0)"},
                                         {"theoretical", "coalesce(theoretical, 0)"}};

constexpr char kNameOfProfiled[] =
    "iif(profile.kernel_name = '', kernel.name, profile.kernel_name)";
constexpr Exceptions kInsertedProfile = {{"id"},          {"trial_id", "trial_id", "nullif(?, 0)"},
                                         {"sweep_id"},    {"set", "metric_set"},
                                         {"cache_mode"},  {"samples_ns"},
                                         {"kernel_hash"}, {"dims"},
                                         {"dtype"},       {"device_name"},
                                         {"target"},      {"driver"},
                                         {"compiler"},    {"include_digest"}};  // the key has an id
constexpr Exceptions kSelectedProfile = {
    {"id", "profile.id"},
    {"kernel_name", kNameOfProfiled},
    {"sweep_id", "(SELECT sweep_id FROM trial WHERE trial.id = profile.trial_id)"},
    {"set", "metric_set"},
    {"samples_ns"}};

}  // namespace

absl::Status SqlStore::AppendLegs(const std::vector<LegRow>& legs) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const LegRow& leg : legs) RETURN_IF_ERROR(Insert(connection, "leg", leg, kInsertedLeg));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<LegRow>> SqlStore::GateLegs(int64_t gate_kernel_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<LegRow>(*reader, {}, "leg WHERE gate_kernel_id = ? ORDER BY id", gate_kernel_id);
}

absl::StatusOr<std::vector<LegRow>> SqlStore::ComparisonLegs(int64_t compared_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<LegRow>(*reader, {}, "leg WHERE compared_id = ? ORDER BY id", compared_id);
}

absl::Status SqlStore::PutCeilings(const std::vector<CeilingRow>& ceilings) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const CeilingRow& row : ceilings) {
      RETURN_IF_ERROR(Insert(connection, "ceiling_measurement", row, kInsertedCeiling));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<CeilingRow>> SqlStore::GetCeilings(const std::string& device_name,
                                                              const std::string& driver,
                                                              const std::string& uuid) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<CeilingRow>(
      *reader, kSelectedCeiling,
      "ceiling_measurement WHERE id IN (SELECT max(id) FROM ceiling_measurement "
      "WHERE device_name = ? AND (? = '' OR driver = ?) "
      "AND (? = '' OR uuid IN (?, '')) GROUP BY name) ORDER BY name",
      device_name, driver, driver, uuid, uuid);
}

absl::StatusOr<int64_t> SqlStore::AppendProfile(const ProfileRow& row) {
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(int64_t key_id, AddTrialKey(connection, row.key));
    return InsertNew(connection, "profile", row, kInsertedProfile, "key_id", key_id);
  });
}

absl::StatusOr<std::vector<ProfileRow>> SqlStore::ListProfiles(const ProfileFilter& filter) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<ProfileRow>(
      *reader, kSelectedProfile,
      "profile JOIN trial_key ON trial_key.id = profile.key_id "
      "JOIN kernel ON kernel.hash = trial_key.kernel_hash "
      "WHERE (? = 0 OR profile.trial_id IN (SELECT id FROM trial WHERE sweep_id = ?)) "
      "AND (? = 0 OR profile.trial_id = ?) "
      "AND (? = '' OR iif(profile.kernel_name = '', kernel.name, profile.kernel_name) = ?) "
      "AND (? = '' OR kernel_hash = ?) AND (? = '' OR device_name = ?) AND profile.id < ? "
      "ORDER BY profile.id DESC LIMIT ?",
      filter.sweep_id, filter.sweep_id, filter.trial_id, filter.trial_id, filter.kernel_name,
      filter.kernel_name, filter.kernel_hash, filter.kernel_hash, filter.device_name,
      filter.device_name, filter.before_id, std::min(filter.limit, kMaxListedProfiles));
}

absl::StatusOr<int64_t> SqlStore::AppendCalibration(const CalibrationRow& row) {
  return writer_.Compute<int64_t>([=](Connection& connection) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const int64_t id, InsertNew(connection, "calibration", row, {{"id"}}));
    for (const CalibrationEntry& entry : row.entries) {
      RETURN_IF_ERROR(Insert(connection, "calibration_entry", entry, {}, "calibration_id", id));
    }
    return id;
  });
}

absl::StatusOr<CalibrationRow> SqlStore::LatestCalibration(const std::string& device_name,
                                                           const std::string& chip) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(std::vector<CalibrationRow> rows,
                   Select<CalibrationRow>(*reader, {},
                                          "calibration WHERE (? = '' OR device_name = ?) "
                                          "AND (? = '' OR chip = ?) ORDER BY id DESC LIMIT 1",
                                          device_name, device_name, chip, chip));
  if (rows.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no calibration of ", device_name.empty() ? chip : device_name));
  }
  ASSIGN_OR_RETURN(
      rows[0].entries,
      Select<CalibrationEntry>(
          *reader, {}, "calibration_entry WHERE calibration_id = ? ORDER BY rowid", rows[0].id));
  return std::move(rows[0]);
}

}  // namespace tune::db
