// SPDX-License-Identifier: Apache-2.0
// How kernels are compared in a session: each has a twin of its own, fresh in each round, and they
// are asked by turns.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/measure/session.h"

namespace tune::server {

// Not thread-safe.
class ComparisonRounds {
 public:
  // The session must outlive the rounds; it has a twin for each kernel and peer. `measured`: the
  // kernels, whose twins run them.
  ComparisonRounds(Session& session, std::vector<size_t> measured, const SamplePolicy& policy,
                   uint64_t seed)
      : session_(session), measured_(std::move(measured)), policy_(policy), seed_(seed) {}

  const SamplePolicy& policy() const { return policy_; }

  // A fresh process for each kernel, all started at the same time.
  absl::Status Renew() { return session_.Renew(measured_); }

  // Checks the kernel against its own reference and times it, in its own process. A problem that
  // cannot be prepared is kLaunchFailed. A non-OK status: the device is lost.
  absl::StatusOr<RunReport> Measure(size_t kernel, const Variant& variant);

  // Checks the outputs of others against the reference of `first`, in one process: a report for
  // each. What a program has in common with `first`, by name, it takes as that has it.
  absl::StatusOr<std::vector<RunReport>> CheckOthers(const Variant& first,
                                                     const std::vector<const Variant*>& others);
  // Compares outputs that a peer computed itself. Errors are those of CheckOthers.
  absl::StatusOr<RunReport> Judge(const Variant& first, const std::vector<BufferFile>& outputs);

 private:
  Session& session_;
  const std::vector<size_t> measured_;
  const SamplePolicy policy_;
  const uint64_t seed_;
};

}  // namespace tune::server
