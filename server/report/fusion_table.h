// SPDX-License-Identifier: Apache-2.0
// A table of fusions (kernels/fusions.textproto), read, and its kernels resolved for a device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/kernels/catalogue.h"
#include "server/workload/workload.h"
#include "tune/v1/fusion.pb.h"
#include "tuner/expression/expression.h"

namespace tune::server {

// INVALID_ARGUMENT: "fusions.textproto:12:3: ...", or more than a report can hold.
absl::StatusOr<v1::FusionTable> ParseFusionTable(const std::string& text);

// The table's sizes as they are on a target, but for those that are given. INVALID_ARGUMENT: one
// that the table does not have, or that is below 1.
absl::StatusOr<std::map<std::string, int64_t>> SizesOf(const v1::FusionTable& table,
                                                       const std::string& target,
                                                       const std::map<std::string, int64_t>& given);

// A kernel of the table, at its problem.
struct FusedKernel {
  std::string name;
  double times = 1;
  Workload workload;
};

// Resolves kernels of one table for one device.
class FusionResolver {
 public:
  // All must outlive this.
  FusionResolver(const v1::FusionTable& table, const std::map<std::string, int64_t>& sizes,
                 const Catalogue& catalogue, const DeviceChoice& device);

  // Errors name the part.
  absl::StatusOr<FusedKernel> Resolve(const v1::FusionPart& part) const;
  // Evaluates an expression over the sizes; 1 if it is empty.
  absl::StatusOr<double> Times(const std::string& where, const std::string& expression) const;

 private:
  const v1::FusionTable& table_;
  const Catalogue& catalogue_;
  const DeviceChoice& device_;
  Scope scope_;
};

}  // namespace tune::server
