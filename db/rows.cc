// SPDX-License-Identifier: Apache-2.0
#include "db/rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

// The name under which look-ups know a sweep's kernel.
constexpr char kNameOfSwept[] =
    "iif(sweep.name_space = '', '', sweep.name_space || '/') || kernel.name";
constexpr Exceptions kSelectedSweep = {{"id", "sweep.id"}, {"kernel_name", kNameOfSwept}};
// An empty idempotency key is NULL: it equals no other.
constexpr Exceptions kInsertedSweep = {{"id"},
                                       {"job."},
                                       {"kernel_name"},
                                       {"idempotency_key", "idempotency_key", "nullif(?, '')"},
                                       {"best_trial_id", "best_trial_id", "nullif(?, 0)"},
                                       {"default_trial_id", "default_trial_id", "nullif(?, 0)"}};

constexpr Exceptions kWholeTrial = {{"id", "trial.id"}, {"sample_count", "length(samples_ns) / 8"}};
constexpr Exceptions kShortTrial = {{"id", "trial.id"},
                                    {"message", "substr(message, 1, 500)"},
                                    {"sample_count", "length(samples_ns) / 8"},
                                    {"samples_ns", "NULL"}};
constexpr Exceptions kInsertedTrial = {{"id"}, {"sample_count"}, {"cache_mode"}};

constexpr char kSeed[] = "(SELECT seed FROM sweep WHERE sweep.id = trial.sweep_id)";
constexpr char kTies[] =
    "(SELECT json_group_array(json_array(tie.config, tie.latency_ns_median)) "
    "FROM sweep, json_each(CASE json_valid(sweep.tie_trial_ids) WHEN 1 THEN sweep.tie_trial_ids "
    "ELSE '[]' END) AS tied JOIN trial AS tie ON tie.id = tied.value "
    "WHERE sweep.id = trial.sweep_id)";
constexpr char kNameOfRecorded[] =
    "(SELECT iif(name_space = '', '', name_space || '/') FROM sweep "
    "WHERE sweep.id = trial.sweep_id) || kernel.name";
constexpr char kSubmitter[] =
    "(SELECT job.owner FROM sweep JOIN job ON job.id = sweep.job_id "
    "WHERE sweep.id = trial.sweep_id)";
constexpr Exceptions kSelectedRecord = {{"id", "current_record.id"},
                                        {"kernel_name", kNameOfRecorded},
                                        {"sample_count", "length(samples_ns) / 8"},
                                        {"samples_ns", "NULL"},
                                        {"seed", kSeed},
                                        {"ties", kTies},
                                        {"submitter", kSubmitter}};

// Whole characters of at most `limit` bytes.
absl::string_view Prefix(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

std::string SelectRecordsOf(absl::string_view table) {
  return absl::StrCat("SELECT ", ColumnsOf<lookup::Record>(kSelectedRecord), " FROM ", table,
                      " JOIN trial ON trial.id = current_record.trial_id "
                      "JOIN trial_key ON trial_key.id = trial.key_id "
                      "JOIN kernel ON kernel.hash = trial_key.kernel_hash ");
}

}  // namespace

std::string SelectSweeps() {
  return absl::StrCat("SELECT ", ColumnsOf<SweepRow>(kSelectedSweep),
                      " FROM sweep JOIN kernel ON kernel.hash = sweep.kernel_hash "
                      "JOIN job ON job.id = sweep.job_id ");
}

absl::StatusOr<SweepRow> ReadSweep(Statement& row) { return ReadRow<SweepRow>(row); }

absl::Status InsertSweep(Connection& connection, SweepRow& sweep) {
  ASSIGN_OR_RETURN(sweep.job.id, InsertJob(connection, sweep.job));
  ASSIGN_OR_RETURN(sweep.id,
                   InsertNew(connection, "sweep", sweep, kInsertedSweep, "job_id", sweep.job.id));
  return absl::OkStatus();
}

absl::Status ChangeSweep(Connection& connection, const SweepRow& sweep) {
  ASSIGN_OR_RETURN(const std::string ties, Encode(sweep.tie_trial_ids));
  Statement update = connection.Prepare(
      "UPDATE sweep SET device_name = ?, best_trial_id = ?, default_trial_id = ?, "
      "tie_trial_ids = ?, spent_seconds = ?, summary = ? WHERE id = ? AND job_id = ?");
  update.Bind(sweep.device_name, OptionalId{sweep.best_trial_id},
              OptionalId{sweep.default_trial_id}, ties, sweep.spent_seconds, sweep.summary,
              sweep.id, sweep.job.id);
  RETURN_IF_ERROR(update.Run());
  if (connection.changed_rows() != 1) {
    return absl::NotFoundError(absl::StrCat("no sweep ", sweep.id));
  }
  return ChangeJob(connection, sweep.job);
}

std::string SelectTrials(Samples samples) {
  const Exceptions exceptions = samples == Samples::kLoad ? kWholeTrial : kShortTrial;
  return absl::StrCat("SELECT ", ColumnsOf<Trial>(exceptions),
                      " FROM trial JOIN trial_key ON trial_key.id = trial.key_id ");
}

absl::StatusOr<Trial> ReadTrial(Statement& row) { return ReadRow<Trial>(row); }

absl::StatusOr<lookup::TimedConfig> ReadTimedConfig(Statement& row) {
  return ReadRow<lookup::TimedConfig>(row);
}

absl::StatusOr<int64_t> InsertTrial(Connection& connection, Trial trial, int64_t key_id) {
  trial.message = std::string(Prefix(trial.message, kMaxTrialMessageBytes));
  return InsertNew(connection, "trial", trial, kInsertedTrial, "key_id", key_id);
}

std::string SelectTrialKeys() {
  return absl::StrCat("SELECT ", ColumnsOf<TrialKey>(),
                      " FROM trial JOIN trial_key ON trial_key.id = trial.key_id ");
}

std::string SelectKeysOfKernels() {
  return absl::StrCat("SELECT ", ColumnsOf<TrialKey>(),
                      " FROM trial_key JOIN kernel ON kernel.hash = trial_key.kernel_hash ");
}

absl::StatusOr<TrialKey> ReadTrialKey(Statement& row) { return ReadRow<TrialKey>(row); }

absl::StatusOr<int64_t> FindTrialKey(Connection& connection, const TrialKey& key) {
  Statement find =
      connection.Prepare(absl::StrCat("SELECT id FROM trial_key WHERE (", ColumnsOf<TrialKey>(),
                                      ") = (", ParametersOf<TrialKey>(), ")"));
  RETURN_IF_ERROR(BindRow(find, key));
  ASSIGN_OR_RETURN(const bool found, find.Step());
  return found ? find.FirstInteger() : 0;
}

absl::StatusOr<int64_t> AddTrialKey(Connection& connection, const TrialKey& key) {
  ASSIGN_OR_RETURN(const int64_t id, FindTrialKey(connection, key));
  if (id != 0) return id;
  return InsertNew(connection, "trial_key", key);
}

std::string SelectCurrentRecords() { return SelectRecordsOf("current_record"); }

std::string SelectRecords() { return SelectRecordsOf("record AS current_record"); }

absl::StatusOr<lookup::Record> ReadRecord(Statement& row) { return ReadRow<lookup::Record>(row); }

}  // namespace tune::db
