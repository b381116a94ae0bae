// SPDX-License-Identifier: Apache-2.0
// A session without processes. It notes each call, and answers as a test says.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/measure/session.h"

namespace tune::server {

// A report of samples of this many nanoseconds.
inline RunReport Timed(double ns) {
  return {.samples_ns = std::vector<double>(5, ns), .clock = Clock::kCupti};
}

class FakeSession : public Session {
 public:
  // "renew 0,1", "close", "retire 0", "prepare 1 beside", "prepare 1 alone", "measure 1", "judge
  // 0", "ceilings 0 2"
  std::vector<std::string> calls;
  std::vector<ProblemPlan> prepared;
  std::vector<uint64_t> seeds;
  std::vector<RunRequest> measured;
  std::function<absl::Status(size_t twin)> renew;
  std::function<absl::Status(size_t twin)> prepare;
  std::function<absl::StatusOr<Leg>(size_t twin, const Program& program)> measure;
  std::function<absl::StatusOr<std::vector<Ceiling>>()> ceilings;

  absl::Status Renew(const std::vector<size_t>& twins) override {
    calls.push_back(absl::StrCat("renew ", absl::StrJoin(twins, ",")));
    return renew ? renew(twins.empty() ? 0 : twins[0]) : absl::OkStatus();
  }
  void Close() override { calls.push_back("close"); }
  void Retire(size_t twin) override { calls.push_back(absl::StrCat("retire ", twin)); }
  absl::StatusOr<CompilePause> Quiet() override {
    calls.push_back("quiet");
    return CompilePause();
  }
  absl::Status Prepare(size_t twin, const ProblemPlan& problem, const std::string&, uint64_t seed,
                       IfFull if_full) override {
    calls.push_back(
        absl::StrCat("prepare ", twin, if_full == IfFull::kUseAlone ? " alone" : " beside"));
    prepared.push_back(problem);
    seeds.push_back(seed);
    return prepare ? prepare(twin) : absl::OkStatus();
  }
  absl::StatusOr<Leg> Measure(size_t twin, const RunRequest& request) override {
    calls.push_back(absl::StrCat("measure ", twin));
    measured.push_back(request);
    return measure ? measure(twin, request.program) : Leg{Timed(100)};
  }
  absl::StatusOr<RunReport> Judge(size_t twin, const std::vector<BufferFile>&) override {
    calls.push_back(absl::StrCat("judge ", twin));
    return RunReport{};
  }
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(size_t twin, double sustained) override {
    calls.push_back(absl::StrCat("ceilings ", twin, " ", sustained));
    return ceilings ? ceilings() : std::vector<Ceiling>();
  }
};

}  // namespace tune::server
