// SPDX-License-Identifier: Apache-2.0
#include "server/records/shipped_records.h"

#include <google/protobuf/util/json_util.h>

#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "server/records/record_convert.h"

namespace tune::server {
namespace {

absl::Status Invalid(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("these are no records: ", why));
}

// What makes two records answer for the same.
auto WorkloadOf(const lookup::Record& record) {
  const TrialKey& key = record.key;
  return std::tuple(record.kernel_name, key.kernel_hash, key.device_name, key.target,
                    ToText(key.problem), key.cache_mode);
}

}  // namespace

absl::StatusOr<std::vector<lookup::Record>> ParseShippedRecords(const std::string& text) {
  v1::ListRecordsResponse list;
  const auto read = google::protobuf::util::JsonStringToMessage(text, &list);
  if (!read.ok()) return Invalid(read.ToString());
  std::vector<lookup::Record> records;
  for (const v1::Record& proto : list.records()) {
    ASSIGN_OR_RETURN(lookup::Record record, FromProto(proto));
    const bool whole = !record.kernel_name.empty() && !record.key.kernel_hash.empty() &&
                       !record.key.device_name.empty() && !record.key.target.empty() &&
                       !record.trial.config.entries.empty();
    if (!whole) return Invalid(absl::StrCat("one of '", record.kernel_name, "' lacks its key"));
    record.id = record.trial.id = record.trial.sweep_id = 0;
    records.push_back(std::move(record));
  }
  return records;
}

absl::StatusOr<std::vector<lookup::Record>> LoadShippedRecords() {
  std::vector<lookup::Record> all;
  for (const RecordsFile& file : CatalogueRecords()) {
    const std::string text(file.text);
    absl::StatusOr<std::vector<lookup::Record>> records = ParseShippedRecords(text);
    if (!records.ok()) {
      return absl::InternalError(
          absl::StrCat("kernels/records/", file.name, ": ", records.status().message()));
    }
    for (lookup::Record& record : *records) all.push_back(std::move(record));
  }
  return all;
}

std::vector<lookup::Record> WithShipped(std::vector<lookup::Record> shipped,
                                        std::vector<lookup::Record> own) {
  std::set<decltype(WorkloadOf(std::declval<const lookup::Record&>()))> known;
  for (const lookup::Record& record : own) known.insert(WorkloadOf(record));
  std::vector<lookup::Record> all;
  for (lookup::Record& record : shipped) {
    if (!known.contains(WorkloadOf(record))) all.push_back(std::move(record));
  }
  all.insert(all.end(), std::move_iterator(own.begin()), std::move_iterator(own.end()));
  return all;
}

}  // namespace tune::server
