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
#include "base/printable.h"
#include "client/cli/dim_flags.h"
#include "client/cli/json.h"
#include "client/cli/kernel_files.h"
#include "client/cli/report_output.h"
#include "client/cli/sweep_flags.h"
#include "client/cli/sweep_view.h"
#include "client/connect/rpc.h"
#include "client/report/fusion_view.h"
#include "client/report/html_page.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(120);

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
    auto text = ReadDefinition(flags.table);
    if (!text.ok()) return text.status();
    request.set_table_text(*std::move(text));
  }
  auto sizes = ParseSizes(flags.sizes);
  if (!sizes.ok()) return sizes.status();
  request.mutable_sizes()->insert(sizes->begin(), sizes->end());
  return request;
}

absl::StatusOr<v1::FusionReport> GetReport(Connection& connection,
                                           const v1::GetFusionReportRequest& request) {
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::FusionReport report;
  absl::Status status = FromGrpc(connection.reports().GetFusionReport(&context, request, &report));
  if (!status.ok()) return status;
  return report;
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
    absl::Status tuned = tune(finding.fused());
    for (const v1::FusedWork& work : finding.sequence()) {
      if (tuned.ok()) tuned = tune(work);
    }
    if (!tuned.ok()) return tuned;
  }
  return absl::OkStatus();
}

absl::Status Run(Session& session, const FusionFlags& flags) {
  auto request = MakeRequest(flags);
  if (!request.ok()) return request.status();
  const bool tunes = !flags.sweep_first.empty();
  auto connection = session.Connect(tunes ? Need::kAll : Need::kRead);
  if (!connection.ok()) return connection.status();
  auto report = GetReport(**connection, *request);
  if (!report.ok()) return report.status();
  const std::string format = FormatOf(flags.output);
  if (tunes) {
    auto budget = ParseBudget(flags.sweep_first);
    if (!budget.ok()) return budget.status();
    absl::Status swept = SweepMissing(**connection, *report, *budget, format == "json");
    if (!swept.ok()) return swept;
    report = GetReport(**connection, *request);
    if (!report.ok()) return report.status();
  }
  if (format == "html") return Write(flags.output, HtmlPage(*report));
  if (format == "svg") return Write(flags.output, ToSvg(FusionChart(*report)));
  if (format == "md") {
    return Write(flags.output, Printable(MarkdownText(*report, flags.output.image)));
  }
  if (format == "json") return Write(flags.output, JsonText(*report, Layout::kIndented) + "\n");
  return Write(flags.output, TerminalText(*report));
}

}  // namespace

void AddFusionReport(CLI::App& report, Session& session) {
  auto flags = std::make_shared<FusionFlags>();
  CLI::App* fusion = report.add_subcommand(
      "fusion",
      "Fused kernels beside the sequences that they replace: bytes, time, and what they are worth "
      "in a training step.\n"
      "Examples:\n"
      "  tunectl report fusion --sweep-first 30s --out fusion.html\n"
      "  tunectl report fusion --size seq=4096 --size layers=32 --format md");
  fusion
      ->add_option("--size", flags->sizes,
                   "A size of the model, such as seq=4096; may be given again. By default the "
                   "table's")
      ->allow_extra_args(false);
  fusion->add_option("--table", flags->table,
                     "Your own table of fusions, as kernels/fusions.textproto of the sources");
  fusion->add_option("--device", flags->device, "Device id, such as cuda:0 or cpu");
  fusion->add_option("--sweep-first", flags->sweep_first,
                     "Tune each kernel of a fusion that no sweep has measured first: trials (100) "
                     "or time (30s)");
  AddOutputFlags(*fusion, flags->output);
  fusion->callback([&session, flags] { session.Finish(Run(session, *flags)); });
}

}  // namespace tune::client
