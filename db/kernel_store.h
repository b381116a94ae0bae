// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for kernels. Kernels as they were submitted, by their hash.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fields.h"

namespace tune::db {

// A kernel as submitted. Kept so that a restarted daemon can go on and evidence can be re-run.
struct KernelRow {
  std::string hash;  // SHA-256, hex
  std::string name;
  std::string spec_name;
  std::string spec_text;
  std::map<std::string, std::string> files;
};

// Thread-safe.
class KernelStore {
 public:
  virtual ~KernelStore() = default;

  // Kernels are immutable; the same hash again is not an error.
  virtual absl::Status PutKernel(const KernelRow& kernel) = 0;
  virtual absl::StatusOr<KernelRow> GetKernel(const std::string& hash) = 0;
};

}  // namespace tune::db
