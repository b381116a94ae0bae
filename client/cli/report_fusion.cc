// SPDX-License-Identifier: Apache-2.0
// tunectl report fusion
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_files.h"
#include "client/cli/report_output.h"
#include "client/cli/sweep_flags.h"
#include "client/cli/sweep_view.h"
#include "client/report/svg_chart.h"
#include "tune/v1/report.grpc.pb.h"

namespace tune::client {
namespace {

struct FusionFlags {
  std::vector<std::string> sizes;  // "seq=4096"
  std::string table;
  std::string device;
  std::string sweep_first;  // a budget
  ReportOutput output;
};

// "4096", "4k" and "4Ki", as dims have them.
absl::StatusOr<std::map<std::string, int64_t>> ParseSizes(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> sizes;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (sides.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--size '", text, "': a size is given as seq=4096"));
    }
    sizes[sides.first] = sides.second;
  }
  return ParseDims(sizes);
}

absl::StatusOr<v1::GetFusionReportRequest> MakeRequest(const FusionFlags& flags) {
  v1::GetFusionReportRequest request;
  request.set_device(flags.device);
  if (!flags.table.empty()) {
    ASSIGN_OR_RETURN(auto text, ReadDefinition(flags.table));
    request.set_table_text(std::move(text));
  }
  ASSIGN_OR_RETURN(auto sizes, ParseSizes(flags.sizes));
  request.mutable_sizes()->insert(sizes.begin(), sizes.end());
  return request;
}

// Tunes what no sweep has measured yet: every kernel of a fusion, each problem once.
absl::Status SweepMissing(Connection& connection, const v1::FusionReport& report,
                          const v1::Budget& budget, bool quiet) {
  std::set<std::string> known;
  const auto tune = [&](const v1::FusedWork& work) -> absl::Status {
    const std::string key = absl::StrCat(work.kernel(), "\n", work.problem().SerializeAsString());
    if (work.sweep_id() != 0 || !known.insert(key).second) return absl::OkStatus();
    v1::SubmitSweepRequest request;
    request.set_kernel_name(work.kernel());
    for (const v1::DimValue& dim : work.problem().dims()) {
      (*request.mutable_dims())[dim.name()] = dim.value();
    }
    request.set_dtype(work.problem().dtype());
    request.set_device(report.device_id());
    *request.mutable_budget() = budget;
    return RunSweep(connection, request, quiet);
  };
  for (const v1::FusionFinding& finding : report.fusions()) {
    RETURN_IF_ERROR(tune(finding.fused()));
    for (const v1::FusedWork& work : finding.sequence()) RETURN_IF_ERROR(tune(work));
  }
  return absl::OkStatus();
}

absl::Status Run(Session& session, const FusionFlags& flags) {
  ASSIGN_OR_RETURN(const v1::GetFusionReportRequest request, MakeRequest(flags));
  const bool tunes = !flags.sweep_first.empty();
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(tunes ? Need::kAll : Need::kRead));
  ASSIGN_OR_RETURN(v1::FusionReport report,
                   Call(connection, &v1::ReportService::Stub::GetFusionReport, request));
  if (tunes) {
    ASSIGN_OR_RETURN(const v1::Budget budget, ParseBudget(flags.sweep_first));
    RETURN_IF_ERROR(SweepMissing(*connection, report, budget, FormatOf(flags.output) == "json"));
    ASSIGN_OR_RETURN(report, Call(connection, &v1::ReportService::Stub::GetFusionReport, request));
  }
  return WriteReport(flags.output, report,
                     [](const v1::FusionReport& shown) { return ToSvg(FusionChart(shown)); });
}

}  // namespace

Command FusionReportCommand(Session& session) {
  const auto flags = std::make_shared<FusionFlags>();
  return {.name = "fusion",
          .help =
              "Fused kernels beside the sequences that they replace: bytes, time, and what they "
              "are worth in a training step.\n"
              "Examples:\n"
              "  tunectl report fusion --sweep-first 30s --out fusion.html\n"
              "  tunectl report fusion --size seq=4096 --size layers=32 --format md",
          .flags = Joined(
              {Flag("--size", &flags->sizes,
                    "A size of the model, such as seq=4096; may be given again. By default the "
                    "table's")
                   .Repeated(),
               Flag("--table", &flags->table,
                    "Your own table of fusions, as kernels/fusions.textproto of the sources"),
               Flag("--device", &flags->device, "Device id, such as cuda:0 or cpu"),
               Flag("--sweep-first", &flags->sweep_first,
                    "Tune each kernel of a fusion that no sweep has measured first: trials (100) "
                    "or time (30s)")},
              OutputFlags(flags->output)),
          .run = [&session, flags] { return Run(session, *flags); }};
}

}  // namespace tune::client
