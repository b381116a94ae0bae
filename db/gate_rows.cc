// SPDX-License-Identifier: Apache-2.0
// SqlStore's calls about gate runs, and its lists of baselines.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "db/columns.h"
#include "db/gate.h"
#include "db/sql_store.h"

namespace tune::db {
namespace {

constexpr uint32_t kGatesListedMax = 10000;

constexpr Exceptions kSelectedRun = {{"id", "gate_run.id"}, {"kind", "gate_run.kind"}};
constexpr Exceptions kInsertedRun = {{"id"}, {"job."}};
constexpr char kRuns[] = "gate_run JOIN job ON job.id = gate_run.job_id ";
constexpr Exceptions kInsertedKernel = {{"id"},
                                        {"base_kernel_hash", "base_kernel_hash", "nullif(?, '')"}};

absl::StatusOr<std::vector<GateKernelRow>> SelectKernels(Connection& connection,
                                                         absl::string_view where,
                                                         const auto& value) {
  ASSIGN_OR_RETURN(auto kernels,
                   Select<GateKernelRow>(
                       connection, {}, absl::StrCat("gate_kernel ", where, " ORDER BY id"), value));
  for (GateKernelRow& kernel : kernels) {
    if (std::isnan(kernel.tolerance)) kernel.tolerance = -1;
  }
  return kernels;
}

}  // namespace

absl::StatusOr<int64_t> SqlStore::AddGateRun(const GateRunRow& run) {
  return writer_.Compute<int64_t>([=](Connection& connection) {
    return InsertNew(connection, "gate_run", run, kInsertedRun, "job_id", run.job.id);
  });
}

absl::StatusOr<GateRunRow> SqlStore::GetGateRun(int64_t id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  ASSIGN_OR_RETURN(auto runs, Select<GateRunRow>(*reader, kSelectedRun,
                                                 absl::StrCat(kRuns, "WHERE gate_run.id = ?"), id));
  if (runs.empty()) return absl::NotFoundError(absl::StrCat("no gate run ", id));
  return std::move(runs.front());
}

absl::StatusOr<std::vector<GateRunRow>> SqlStore::ListGateRuns(uint32_t limit, int64_t before_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  Statement query =
      reader->Prepare(absl::StrCat("SELECT ", ColumnsOf<GateRunRow>(kSelectedRun), " FROM ", kRuns,
                                   "WHERE gate_run.id < ? ORDER BY gate_run.id DESC LIMIT ?"));
  return ReadReadable(
      query.Bind(before_id, std::min(limit, kGatesListedMax)),
      [](Statement& row) { return ReadRow<GateRunRow>(row); }, unreadable_, "gate_run");
}

absl::StatusOr<int64_t> SqlStore::AddGateKernel(const GateKernelRow& kernel) {
  return writer_.Compute<int64_t>([stored = kernel](Connection& connection) mutable {
    if (stored.tolerance < 0) stored.tolerance = std::nan("");  // NULL
    return InsertNew(connection, "gate_kernel", stored, kInsertedKernel);
  });
}

absl::StatusOr<std::vector<GateKernelRow>> SqlStore::GateKernels(int64_t run_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return SelectKernels(*reader, "WHERE run_id = ?", run_id);
}

absl::StatusOr<std::vector<GateKernelRow>> SqlStore::GateKernelsNamed(const std::string& name) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return SelectKernels(*reader, "WHERE name = ?", name);
}

absl::Status SqlStore::AddGateVerdicts(const std::vector<GateVerdictRow>& verdicts) {
  return writer_.Run([=](Connection& connection) -> absl::Status {
    for (const GateVerdictRow& verdict : verdicts) {
      RETURN_IF_ERROR(Insert(connection, "gate_verdict", verdict));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<GateVerdictRow>> SqlStore::GateVerdicts(int64_t run_id) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<GateVerdictRow>(*reader, {},
                                "gate_verdict WHERE gate_kernel_id IN (SELECT id FROM gate_kernel "
                                "WHERE run_id = ?) ORDER BY gate_kernel_id",
                                run_id);
}

absl::StatusOr<std::vector<BaselineRow>> SqlStore::Baselines(uint32_t limit,
                                                             const std::string& after_name,
                                                             const std::string& after_kernel) {
  ASSIGN_OR_RETURN(Readers::Borrowed reader, readers_.Borrow());
  return Select<BaselineRow>(
      *reader, {}, "baseline WHERE (name, kernel_name) > (?, ?) ORDER BY name, kernel_name LIMIT ?",
      after_name, after_kernel, limit);
}

}  // namespace tune::db
