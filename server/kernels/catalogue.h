// SPDX-License-Identifier: Apache-2.0
// The kernels that the daemon knows by name, parsed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/catalogue.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// Kernel::origin of operators' kernels: the name space that they share with the catalogue.
inline constexpr char kOperatorsOrigin[] = "";

struct NamedKernel {
  std::shared_ptr<const Kernel> kernel;
  std::string spec_name;  // "softmax.textproto"
  std::string readme;     // of the catalogue's kernels
};

// Immutable. Thread-safe.
class Catalogue {
 public:
  // Leaves out kernels with errors, and describes these in `faults`.
  static Catalogue Parse(const std::vector<CatalogueEntry>& entries,
                         std::vector<absl::Status>& faults);

  const std::map<std::string, NamedKernel>& kernels() const { return kernels_; }
  // NOT_FOUND names the kernels there are.
  absl::StatusOr<NamedKernel> Find(const std::string& name) const;

 private:
  std::map<std::string, NamedKernel> kernels_;
};

}  // namespace tune::server
