// SPDX-License-Identifier: Apache-2.0
// tunectl report roofline|sweep|compare|fusion
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
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/cli/report_output.h"
#include "client/cli/sweep_view.h"
#include "client/cli/work_id.h"
#include "client/report/svg_chart.h"
#include "tune/v1/report.grpc.pb.h"

namespace tune::client {
namespace {

struct ReportFlags {
  KernelChoice kernels{.several = true};
  std::vector<int64_t> sweep_ids;
  int64_t sweep_id = 0;
  int64_t comparison_id = 0;
  std::string device;
  std::vector<std::string> params;
  ReportOutput output;
};

absl::Status RunRoofline(Session& session, const ReportFlags& flags) {
  v1::GetRooflinesRequest request;
  for (const std::string& kernel : flags.kernels.All()) {
    ASSIGN_OR_RETURN(*request.add_kernel_names(), KernelName(kernel));
  }
  if (!flags.sweep_ids.empty() && !request.kernel_names().empty()) {
    return absl::InvalidArgumentError("name kernels or sweeps, not both");
  }
  request.mutable_sweep_ids()->Add(flags.sweep_ids.begin(), flags.sweep_ids.end());
  request.set_device(flags.device);
  ASSIGN_OR_RETURN(
      const v1::RooflineReport report,
      Call(session.Connect(Need::kRead), &v1::ReportService::Stub::GetRooflines, request));
  return WriteReport(flags.output, report,
                     [](const v1::RooflineReport& shown) { return ToSvg(ReportChart(shown)); });
}

absl::Status RunSweepReport(Session& session, const ReportFlags& flags) {
  v1::GetSweepReportRequest request;
  request.set_sweep_id(flags.sweep_id);
  if (!flags.params.empty()) request.set_row_param(flags.params[0]);
  if (flags.params.size() > 1) request.set_column_param(flags.params[1]);
  ASSIGN_OR_RETURN(
      const v1::SweepReport report,
      Call(session.Connect(Need::kRead), &v1::ReportService::Stub::GetSweepReport, request));
  return WriteReport(flags.output, report,
                     [](const v1::SweepReport& shown) { return SvgText(shown); });
}

absl::Status RunComparisonReport(Session& session, const ReportFlags& flags) {
  ASSIGN_OR_RETURN(const v1::Comparison comparison,
                   GetComparison(session, flags.comparison_id, /*with_rounds=*/false));
  if (FormatOf(flags.output) == "csv") return Write(flags.output, CsvText(comparison));
  return WriteReport(flags.output, comparison,
                     [](const v1::Comparison& shown) { return ToSvg(ComparisonChart(shown)); });
}

// A report as a verb; `run` makes it of the flags.
Command ReportVerb(Session& session, std::string name, std::string help,
                   std::vector<std::string> examples, const std::shared_ptr<ReportFlags>& flags,
                   std::vector<Flag> its_flags, absl::Status (*run)(Session&, const ReportFlags&)) {
  return {.name = std::move(name),
          .help = std::move(help),
          .examples = std::move(examples),
          .flags = std::move(its_flags),
          .run = [&session, flags, run] { return run(session, *flags); }};
}

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

absl::StatusOr<v1::GetFusionReportRequest> MakeFusionRequest(const FusionFlags& flags) {
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

absl::Status RunFusion(Session& session, const FusionFlags& flags) {
  ASSIGN_OR_RETURN(const v1::GetFusionReportRequest request, MakeFusionRequest(flags));
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

Command FusionCommand(Session& session) {
  const auto flags = std::make_shared<FusionFlags>();
  return {
      .name = "fusion",
      .help =
          "Compare fused kernels with the sequences that they replace: bytes, time, and share of "
          "a training step",
      .examples = {"tunectl report fusion --sweep-first 30s --out fusion.html",
                   "tunectl report fusion --size seq=4096 --size layers=32 --format md"},
      .flags = Joined(
          {Flag("--size", &flags->sizes,
                "A size of the model, such as seq=4096; may be given several times; by default the "
                "table's")
               .Repeated(),
           Flag("--table", &flags->table,
                "Your own table of fusions, as kernels/fusions.textproto of the sources"),
           Flag("--device", &flags->device, "Device id, such as cuda:0 or cpu"),
           Flag("--sweep-first", &flags->sweep_first,
                "Tune the kernels without a sweep first, each with this budget: trials (100) or "
                "time (30s)")},
          OutputFlags(flags->output)),
      .run = [&session, flags] { return RunFusion(session, *flags); }};
}

}  // namespace

Command ReportCommand(Session& session) {
  const auto flags = std::make_shared<ReportFlags>();
  Command roofline = ReportVerb(
      session, "roofline",
      "Plot every trial against the device's limits: what keeps the best from being faster?",
      {"tunectl report roofline softmax --out softmax.html",
       "tunectl report roofline --sweep 12 --format md --image roofline.svg",
       "tunectl report roofline                     the newest sweep of each problem"},
      flags,
      Joined({Flag("--sweep", &flags->sweep_ids, "Sweep ids, as in 'tunectl sweep list'").Commas(),
              Flag("--device", &flags->device, "Only sweeps of this device: id or name")},
             OutputFlags(flags->output)),
      RunRoofline);
  roofline.kernel = &flags->kernels;
  roofline.notes = "Of a kernel: the newest finished sweep of each of its problems.";
  return {
      .name = "report",
      .help = "Pictures and pages of the stored measurements",
      .verbs = {
          std::move(roofline),
          ReportVerb(
              session, "sweep",
              "Show how much each parameter of a sweep matters, its search and its failures",
              {"tunectl report sweep 12 --out sweep.html",
               "tunectl report sweep 12 --params BLOCK_M,STAGES --format svg --out sweep.svg"},
              flags,
              Joined(
                  {Flag("ID", &flags->sweep_id, "Sweep id, as in 'tunectl sweep list'").Required(),
                   Flag("--params", &flags->params,
                        "Two params of the heat map; by default the two that interact "
                        "most")
                       .Commas(/*values_max=*/2)},
                  OutputFlags(flags->output)),
              RunSweepReport),
          ReportVerb(
              session, "compare",
              "Show a comparison: the rates of all kernels, over the swept dim if there is "
              "one, and the roof",
              {"tunectl report compare 3 --out compare.html",
               "tunectl report compare 3 --format csv --out compare.csv"},
              flags,
              Joined(
                  {Flag("ID", &flags->comparison_id, "Comparison id, as in 'tunectl compare list'")
                       .Required()},
                  OutputFlags(flags->output, {"csv", "html", "json", "md", "svg", "terminal"})),
              RunComparisonReport),
          FusionCommand(session)}};
}

}  // namespace tune::client
