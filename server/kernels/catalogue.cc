// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/catalogue.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/near_name.h"
#include "server/rpc/error_detail.h"
#include "server/wire/spec.h"

namespace tune::server {

Catalogue Catalogue::Parse(const std::vector<CatalogueEntry>& entries,
                           std::vector<absl::Status>& faults) {
  Catalogue catalogue;
  for (const CatalogueEntry& entry : entries) {
    absl::StatusOr<std::shared_ptr<const Kernel>> kernel =
        ReadKernel(entry.spec_name, entry.spec_text, entry.files, kOperatorsOrigin);
    if (kernel.ok() && (*kernel)->spec().name != entry.name) {
      kernel = absl::InvalidArgumentError(absl::StrCat(entry.spec_name, ": the kernel is named '",
                                                       (*kernel)->spec().name, "', its folder '",
                                                       entry.name, "'"));
    }
    if (!kernel.ok()) {
      faults.push_back(kernel.status());
      continue;
    }
    catalogue.kernels_[entry.name] = {*std::move(kernel), entry.spec_name, entry.readme};
  }
  return catalogue;
}

absl::StatusOr<NamedKernel> Catalogue::Find(const std::string& name) const {
  auto it = kernels_.find(name);
  if (it != kernels_.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [known, kernel] : kernels_) names.push_back(known);
  const std::string near = DidYouMean(name, names);
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_NO_SUCH_KERNEL);
  detail.set_kernel(name);
  return WithDetail(
      absl::NotFoundError(absl::StrCat(
          "no kernel '", name, "' in the catalogue",
          near.empty()
              ? absl::StrCat("; there is: ", names.empty() ? "none" : absl::StrJoin(names, ", "))
              : near)),
      detail);
}

}  // namespace tune::server
