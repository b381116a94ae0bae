// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_records.h"

#include <google/protobuf/util/json_util.h>

#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/catalogue.h"
#include "server/records/record_convert.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

absl::Status Invalid(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("these are no records: ", why));
}

// What makes two records answer for the same.
auto WorkloadOf(const db::RecordRow& record) {
  const db::TrialKey& key = record.key;
  return std::tuple(record.kernel_name, key.kernel_hash, key.device_name, key.target,
                    ToText(key.problem), key.cache_mode);
}

}  // namespace

absl::StatusOr<std::vector<db::RecordRow>> ParseShippedRecords(const std::string& text) {
  v1::ListRecordsResponse list;
  const auto read = google::protobuf::util::JsonStringToMessage(text, &list);
  if (!read.ok()) return Invalid(read.ToString());
  std::vector<db::RecordRow> records;
  for (const v1::Record& proto : list.records()) {
    ASSIGN_OR_RETURN(db::RecordRow record, FromProto(proto));
    const bool whole = !record.kernel_name.empty() && !record.key.kernel_hash.empty() &&
                       !record.key.device_name.empty() && !record.key.target.empty() &&
                       !record.trial.config.entries.empty();
    if (!whole) return Invalid(absl::StrCat("one of '", record.kernel_name, "' lacks its key"));
    record.id = record.trial.id = record.trial.sweep_id = 0;
    records.push_back(std::move(record));
  }
  return records;
}

absl::StatusOr<std::vector<db::RecordRow>> LoadShippedRecords() {
  std::vector<db::RecordRow> all;
  for (const RecordsFile& file : CatalogueRecords()) {
    const std::string text(file.text);
    absl::StatusOr<std::vector<db::RecordRow>> records = ParseShippedRecords(text);
    if (!records.ok()) {
      return absl::InternalError(
          absl::StrCat("kernels/records/", file.name, ": ", records.status().message()));
    }
    for (db::RecordRow& record : *records) all.push_back(std::move(record));
  }
  return all;
}

std::vector<db::RecordRow> WithShipped(std::vector<db::RecordRow> shipped,
                                       std::vector<db::RecordRow> own) {
  std::set<decltype(WorkloadOf(std::declval<const db::RecordRow&>()))> known;
  for (const db::RecordRow& record : own) known.insert(WorkloadOf(record));
  std::vector<db::RecordRow> all;
  for (db::RecordRow& record : shipped) {
    if (!known.contains(WorkloadOf(record))) all.push_back(std::move(record));
  }
  all.insert(all.end(), std::move_iterator(own.begin()), std::move_iterator(own.end()));
  return all;
}

}  // namespace tune::server
