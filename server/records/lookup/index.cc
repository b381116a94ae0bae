// SPDX-License-Identifier: Apache-2.0
#include "server/records/lookup/index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/records/lookup/kernel_index.h"

namespace tune::server {

std::shared_ptr<const LookupIndex> LookupIndex::Build(std::vector<db::RecordRow> records,
                                                      const std::vector<KernelPolicy>& policies) {
  std::stable_sort(records.begin(), records.end(),
                   [](const db::RecordRow& a, const db::RecordRow& b) { return a.id < b.id; });
  std::shared_ptr<LookupIndex> index(new LookupIndex());
  if (!records.empty()) index->snapshot_id_ = records.back().id;
  absl::flat_hash_map<std::string, std::vector<Record>> by_kernel;
  for (db::RecordRow& record : records) {
    std::vector<Record>& of_kernel = by_kernel[record.kernel_name];
    of_kernel.push_back(std::make_shared<const db::RecordRow>(std::move(record)));
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

std::shared_ptr<const LookupIndex> LookupIndex::With(db::RecordRow record,
                                                     const KernelPolicy& policy) const {
  std::shared_ptr<LookupIndex> index(new LookupIndex(*this));
  index->snapshot_id_ = std::max(snapshot_id_, record.id);
  std::shared_ptr<const KernelIndex>& kernel = index->kernels_[record.kernel_name];
  const auto added = std::make_shared<const db::RecordRow>(std::move(record));
  if (kernel != nullptr && kernel->policy() == policy) {
    kernel = kernel->With(added);
    return index;
  }
  std::vector<Record> records;
  if (kernel != nullptr) records = kernel->CurrentRecords();
  std::reverse(records.begin(), records.end());
  records.push_back(added);
  kernel = KernelIndex::Build(policy, std::move(records));
  return index;
}

std::vector<LookupIndex::Record> LookupIndex::Records() const {
  std::vector<Record> records;
  for (const auto& [name, kernel] : kernels_) {
    const std::vector<Record> of_kernel = kernel->CurrentRecords();
    records.insert(records.end(), of_kernel.begin(), of_kernel.end());
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a->id > b->id; });
  return records;
}

LookupAnswer LookupIndex::Lookup(const LookupQuery& query, Accept accept) const {
  auto kernel = kernels_.find(query.kernel_name);
  if (kernel != kernels_.end()) return kernel->second->Lookup(query, accept);
  return {.reason = absl::StrCat("no record of ", query.kernel_name)};
}

LookupAnswer LookupIndex::Lookup(const LookupQuery& query) const {
  return Lookup(query, [](const db::RecordRow&) { return true; });
}

}  // namespace tune::server
