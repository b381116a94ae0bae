// SPDX-License-Identifier: Apache-2.0
// tunectl report roofline|sweep|compare; report_fusion.cc has fusion
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/comparison_call.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/report_output.h"
#include "client/report/svg_chart.h"
#include "tune/v1/report.grpc.pb.h"

namespace tune::client {
namespace {

struct ReportFlags {
  std::vector<std::string> kernels;
  std::vector<std::string> more_kernels;
  std::vector<int64_t> sweep_ids;
  int64_t sweep_id = 0;
  int64_t comparison_id = 0;
  std::string device;
  std::vector<std::string> params;
  ReportOutput output;
};

absl::Status RunRoofline(Session& session, const ReportFlags& flags) {
  v1::GetRooflinesRequest request;
  for (const auto* kernels : {&flags.kernels, &flags.more_kernels}) {
    for (const std::string& kernel : *kernels) {
      ASSIGN_OR_RETURN(auto name, KernelName(kernel));
      request.add_kernel_names(name);
    }
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

Command RooflineCommand(Session& session) {
  const auto flags = std::make_shared<ReportFlags>();
  return {.name = "roofline",
          .help =
              "Every trial against what the device can do, and what keeps the best from being "
              "faster.\n"
              "Examples:\n"
              "  tunectl report roofline softmax --out softmax.html\n"
              "  tunectl report roofline --sweep 12 --format md --image roofline.svg\n"
              "  tunectl report roofline                     the newest sweep of each problem",
          .flags = Joined(
              {Flag("KERNEL", &flags->kernels,
                    "Names, or paths of specs: the newest finished sweep of each of their "
                    "problems"),
               Flag("--kernel", &flags->more_kernels, kKernelFlagHelp).Repeated(),
               Flag("--sweep", &flags->sweep_ids, "Sweep ids, as in 'tunectl sweep list'").Commas(),
               Flag("--device", &flags->device, "Only of this device: id or name")},
              OutputFlags(flags->output)),
          .run = [&session, flags] { return RunRoofline(session, *flags); }};
}

Command SweepReportCommand(Session& session) {
  const auto flags = std::make_shared<ReportFlags>();
  return {
      .name = "sweep",
      .help =
          "How much each parameter of a sweep matters, how the search went, what failed.\n"
          "Examples:\n"
          "  tunectl report sweep 12 --out sweep.html\n"
          "  tunectl report sweep 12 --params BLOCK_M,STAGES --format svg --out sweep.svg",
      .flags = Joined({Flag("ID", &flags->sweep_id, "Sweep, as in 'tunectl sweep list'").Required(),
                       Flag("--params", &flags->params,
                            "The two of the heat map; by default those that interact most")
                           .Commas(/*values_max=*/2)},
                      OutputFlags(flags->output)),
      .run = [&session, flags] { return RunSweepReport(session, *flags); }};
}

Command ComparisonReportCommand(Session& session) {
  const auto flags = std::make_shared<ReportFlags>();
  return {
      .name = "compare",
      .help =
          "A comparison: rates of all kernels, over the swept dim if there is one, and the "
          "roof.\n"
          "Examples:\n"
          "  tunectl report compare 3 --out compare.html\n"
          "  tunectl report compare 3 --format csv --out compare.csv",
      .flags = Joined({Flag("ID", &flags->comparison_id, "Comparison, as in 'tunectl compare list'")
                           .Required()},
                      OutputFlags(flags->output, {"csv", "html", "json", "md", "svg", "terminal"})),
      .run = [&session, flags] { return RunComparisonReport(session, *flags); }};
}

}  // namespace

Command ReportCommand(Session& session) {
  return {.name = "report",
          .help = "What the stored measurements say, as pictures and pages",
          .verbs = {RooflineCommand(session), SweepReportCommand(session),
                    ComparisonReportCommand(session), FusionReportCommand(session)}};
}

}  // namespace tune::client
