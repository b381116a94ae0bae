// SPDX-License-Identifier: Apache-2.0
// tunectl report roofline|sweep|compare; report_fusion.cc has fusion
#include <memory>
#include <string>
#include <vector>

#include "base/printable.h"
#include "client/cli/commands.h"
#include "client/cli/comparison_call.h"
#include "client/cli/json.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/report_output.h"
#include "client/connect/rpc.h"
#include "client/report/comparison_view.h"
#include "client/report/html_page.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_chart.h"
#include "client/report/sweep_report_view.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(120);

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
      auto name = KernelName(kernel);
      if (!name.ok()) return name.status();
      request.add_kernel_names(*name);
    }
  }
  if (!flags.sweep_ids.empty() && !request.kernel_names().empty()) {
    return absl::InvalidArgumentError("name kernels or sweeps, not both");
  }
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  request.mutable_sweep_ids()->Add(flags.sweep_ids.begin(), flags.sweep_ids.end());
  request.set_device(flags.device);
  v1::RooflineReport report;
  absl::Status status = FromGrpc((*connection)->reports().GetRooflines(&context, request, &report));
  if (!status.ok()) return status;
  const std::string format = FormatOf(flags.output);
  if (format == "html") return Write(flags.output, HtmlPage(report));
  if (format == "svg") return Write(flags.output, ToSvg(ReportChart(report)));
  if (format == "md") {
    return Write(flags.output, Printable(MarkdownText(report, flags.output.image)));
  }
  if (format == "json") return Write(flags.output, JsonText(report, Layout::kIndented) + "\n");
  return Write(flags.output, TerminalText(report));
}

absl::Status RunSweepReport(Session& session, const ReportFlags& flags) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetSweepReportRequest request;
  request.set_sweep_id(flags.sweep_id);
  if (!flags.params.empty()) request.set_row_param(flags.params[0]);
  if (flags.params.size() > 1) request.set_column_param(flags.params[1]);
  v1::SweepReport report;
  absl::Status status =
      FromGrpc((*connection)->reports().GetSweepReport(&context, request, &report));
  if (!status.ok()) return status;
  const std::string format = FormatOf(flags.output);
  if (format == "html") return Write(flags.output, HtmlPage(report));
  if (format == "svg") return Write(flags.output, SvgText(report));
  if (format == "md") {
    return Write(flags.output, Printable(MarkdownText(report, flags.output.image)));
  }
  if (format == "json") return Write(flags.output, JsonText(report, Layout::kIndented) + "\n");
  return Write(flags.output, TerminalText(report));
}

absl::Status RunComparisonReport(Session& session, const ReportFlags& flags) {
  auto comparison = GetComparison(session, flags.comparison_id, /*with_rounds=*/false);
  if (!comparison.ok()) return comparison.status();
  const std::string format = FormatOf(flags.output);
  if (format == "html") return Write(flags.output, HtmlPage(*comparison));
  if (format == "svg") return Write(flags.output, ToSvg(ComparisonChart(*comparison)));
  if (format == "md") {
    return Write(flags.output, Printable(MarkdownText(*comparison, flags.output.image)));
  }
  if (format == "csv") return Write(flags.output, CsvText(*comparison));
  if (format == "json") {
    return Write(flags.output, JsonText(*comparison, Layout::kIndented) + "\n");
  }
  return Write(flags.output, TerminalText(*comparison));
}

}  // namespace

void AddReport(CLI::App& app, Session& session) {
  CLI::App* report =
      app.add_subcommand("report", "What the stored measurements say, as pictures and pages");
  report->require_subcommand(1);

  auto roofline_flags = std::make_shared<ReportFlags>();
  CLI::App* roofline = report->add_subcommand(
      "roofline",
      "Every trial against what the device can do, and what keeps the best from being faster.\n"
      "Examples:\n"
      "  tunectl report roofline softmax --out softmax.html\n"
      "  tunectl report roofline --sweep 12 --format md --image roofline.svg\n"
      "  tunectl report roofline                     the newest sweep of each problem");
  roofline->add_option("KERNEL", roofline_flags->kernels,
                       "Names, or paths of specs: the newest finished sweep of each of their "
                       "problems");
  roofline->add_option("--kernel", roofline_flags->more_kernels, kKernelFlagHelp)
      ->allow_extra_args(false);
  roofline
      ->add_option("--sweep", roofline_flags->sweep_ids, "Sweep ids, as in 'tunectl sweep list'")
      ->delimiter(',');
  roofline->add_option("--device", roofline_flags->device, "Only of this device: id or name");
  AddOutputFlags(*roofline, roofline_flags->output);
  roofline->callback(
      [&session, roofline_flags] { session.Finish(RunRoofline(session, *roofline_flags)); });

  auto sweep_flags = std::make_shared<ReportFlags>();
  CLI::App* sweep = report->add_subcommand(
      "sweep",
      "How much each parameter of a sweep matters, how the search went, what failed.\n"
      "Examples:\n"
      "  tunectl report sweep 12 --out sweep.html\n"
      "  tunectl report sweep 12 --params BLOCK_M,STAGES --format svg --out sweep.svg");
  sweep->add_option("ID", sweep_flags->sweep_id, "Sweep, as in 'tunectl sweep list'")->required();
  sweep
      ->add_option("--params", sweep_flags->params,
                   "The two of the heat map; by default those that interact most")
      ->delimiter(',')
      ->expected(1, 2);
  AddOutputFlags(*sweep, sweep_flags->output);
  sweep->callback(
      [&session, sweep_flags] { session.Finish(RunSweepReport(session, *sweep_flags)); });

  auto compare_flags = std::make_shared<ReportFlags>();
  CLI::App* compare = report->add_subcommand(
      "compare",
      "A comparison: rates of all kernels, over the swept dim if there is one, and the roof.\n"
      "Examples:\n"
      "  tunectl report compare 3 --out compare.html\n"
      "  tunectl report compare 3 --format csv --out compare.csv");
  compare
      ->add_option("ID", compare_flags->comparison_id, "Comparison, as in 'tunectl compare list'")
      ->required();
  AddOutputFlags(*compare, compare_flags->output, {"html", "svg", "md", "json", "csv", "terminal"});
  compare->callback(
      [&session, compare_flags] { session.Finish(RunComparisonReport(session, *compare_flags)); });
  AddFusionReport(*report, session);
}

}  // namespace tune::client
