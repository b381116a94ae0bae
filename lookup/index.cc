// SPDX-License-Identifier: Apache-2.0
#include "lookup/index.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lookup/kernel_index.h"
#include "lookup/record_file.h"

namespace tune::lookup {
namespace {

void NewestFirst(std::vector<RecordPtr>& records) {
  std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    if (a->id != b->id) return a->id > b->id;
    if (a->published_unix_ms != b->published_unix_ms) {  // which came with the program
      return a->published_unix_ms > b->published_unix_ms;
    }
    return a->kernel_name < b->kernel_name;
  });
}

absl::StatusOr<nlohmann::json> DirectoryOf(const RecordFile& file) {
  nlohmann::json directory =
      nlohmann::json::parse(file.directory(), nullptr, /*allow_exceptions=*/false);
  if (directory.is_object()) return directory;
  return absl::DataLossError("an index of records has no directory");
}

// Under another policy than before, with newer records.
std::shared_ptr<const KernelIndex> Rebuilt(const KernelIndex* before, const KernelPolicy& policy,
                                           const std::vector<RecordPtr>& newer) {
  std::vector<RecordPtr> records;
  if (before != nullptr) records = before->CurrentRecords();
  std::reverse(records.begin(), records.end());
  records.insert(records.end(), newer.begin(), newer.end());
  return KernelIndex::Build(policy, std::move(records));
}

}  // namespace

std::shared_ptr<const Index> Index::Build(std::vector<Record> records,
                                          const std::vector<KernelPolicy>& policies) {
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return a.id != b.id ? a.id < b.id : a.published_unix_ms < b.published_unix_ms;
  });
  std::shared_ptr<Index> index(new Index());
  if (!records.empty()) index->snapshot_id_ = records.back().id;
  absl::flat_hash_map<std::string, std::vector<RecordPtr>> by_kernel;
  for (Record& record : records) {
    std::vector<RecordPtr>& of_kernel = by_kernel[record.kernel_name];
    of_kernel.push_back(std::make_shared<const Record>(std::move(record)));
  }
  for (const KernelPolicy& policy : policies) {
    index->kernels_[policy.kernel_name] =
        KernelIndex::Build(policy, std::move(by_kernel[policy.kernel_name]));
    by_kernel.erase(policy.kernel_name);
  }
  for (auto& [name, of_kernel] : by_kernel) {
    index->kernels_[name] = KernelIndex::Build({.kernel_name = name}, std::move(of_kernel));
  }
  return index;
}

absl::StatusOr<std::shared_ptr<const Index>> Index::Open(
    const std::shared_ptr<const RecordFile>& file, const std::vector<KernelPolicy>& policies) {
  ASSIGN_OR_RETURN(const nlohmann::json directory, DirectoryOf(*file));
  std::shared_ptr<Index> index(new Index());
  for (const KernelPolicy& policy : policies) {
    index->kernels_[policy.kernel_name] = KernelIndex::Build(policy, {});
  }
  try {  // the library tells in no other way that a member is missing
    directory.at("snapshot_id").get_to(index->snapshot_id_);
    for (const nlohmann::json& saved : directory.at("kernels")) {
      const std::string name = saved.at("name").get<std::string>();
      std::shared_ptr<const KernelIndex>& kernel = index->kernels_[name];
      const KernelPolicy policy =
          kernel != nullptr ? kernel->policy() : KernelPolicy{.kernel_name = name};
      ASSIGN_OR_RETURN(kernel, KernelIndex::Open(policy, file, saved));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("an index of records: ", error.what()));
  }
  return index;
}

absl::Status Index::Save(const std::string& path, const std::string& note, const RecordCodec& codec,
                         const Cancelled& cancelled) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordFileWriter> file, RecordFileWriter::Create(path));
  nlohmann::json directory = {
      {"note", note}, {"snapshot_id", snapshot_id_}, {"kernels", nlohmann::json::array()}};
  for (const auto& [name, kernel] : kernels_) {
    if (kernel->record_count() == 0) continue;
    ASSIGN_OR_RETURN(nlohmann::json saved, kernel->Save(*file, codec, cancelled));
    directory["kernels"].push_back(std::move(saved));
  }
  return file->Finish(directory.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

absl::StatusOr<std::string> Index::NoteOf(const RecordFile& file) {
  ASSIGN_OR_RETURN(const nlohmann::json directory, DirectoryOf(file));
  const auto note = directory.find("note");
  if (note != directory.end() && note->is_string()) return note->get<std::string>();
  return absl::DataLossError("an index of records has no note");
}

std::shared_ptr<const Index> Index::With(const std::vector<RecordPtr>& records,
                                         const std::vector<KernelPolicy>& policies) const {
  std::map<std::string, KernelPolicy> by_name;
  for (const KernelPolicy& policy : policies) by_name[policy.kernel_name] = policy;
  std::shared_ptr<Index> index(new Index(*this));
  std::map<std::string, std::vector<RecordPtr>> by_kernel;
  for (const RecordPtr& record : records) {
    index->snapshot_id_ = std::max(index->snapshot_id_, record->id);
    by_kernel[record->kernel_name].push_back(record);
  }
  for (const auto& [name, of_kernel] : by_kernel) {
    std::shared_ptr<const KernelIndex>& kernel = index->kernels_[name];
    const auto known = by_name.find(name);
    const KernelPolicy policy =
        known != by_name.end() ? known->second : KernelPolicy{.kernel_name = name};
    kernel = kernel != nullptr && kernel->policy() == policy
                 ? kernel->With(of_kernel)
                 : Rebuilt(kernel.get(), policy, of_kernel);
  }
  return index;
}

std::shared_ptr<const Index> Index::With(Record record, const KernelPolicy& policy) const {
  std::shared_ptr<Index> index(new Index(*this));
  index->snapshot_id_ = std::max(snapshot_id_, record.id);
  std::shared_ptr<const KernelIndex>& kernel = index->kernels_[record.kernel_name];
  const auto added = std::make_shared<const Record>(std::move(record));
  if (kernel != nullptr && kernel->policy() == policy) {
    kernel = kernel->With(added);
    return index;
  }
  kernel = Rebuilt(kernel.get(), policy, {added});
  return index;
}

std::vector<RecordPtr> Index::Records() const {
  std::vector<RecordPtr> records;
  for (const auto& [name, kernel] : kernels_) {
    const std::vector<RecordPtr> of_kernel = kernel->CurrentRecords();
    records.insert(records.end(), of_kernel.begin(), of_kernel.end());
  }
  NewestFirst(records);
  return records;
}

std::vector<RecordPtr> Index::Records(const std::string& kernel_name) const {
  const auto kernel = kernels_.find(kernel_name);
  if (kernel == kernels_.end()) return {};
  std::vector<RecordPtr> records = kernel->second->CurrentRecords();
  NewestFirst(records);
  return records;
}

std::vector<RecordPtr> Index::UnsavedSince(int64_t id) const {
  std::vector<RecordPtr> records;
  for (const auto& [name, kernel] : kernels_) {
    for (const RecordPtr& record : kernel->unsaved()) {
      if (record->id > id) records.push_back(record);
    }
  }
  std::sort(records.begin(), records.end(),
            [](const RecordPtr& a, const RecordPtr& b) { return a->id < b->id; });
  return records;
}

size_t Index::unsaved_count() const {
  size_t count = 0;
  for (const auto& [name, kernel] : kernels_) count += kernel->unsaved().size();
  return count;
}

size_t Index::record_count() const {
  size_t count = 0;
  for (const auto& [name, kernel] : kernels_) count += kernel->record_count();
  return count;
}

Answer Index::Lookup(const Query& query, Accept accept) const {
  auto kernel = kernels_.find(query.kernel_name);
  if (kernel != kernels_.end()) return kernel->second->Lookup(query, accept);
  return {.reason = absl::StrCat("no record of ", query.kernel_name)};
}

Answer Index::Lookup(const Query& query) const {
  return Lookup(query, [](const Record&) { return true; });
}

}  // namespace tune::lookup
