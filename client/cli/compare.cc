// SPDX-License-Identifier: Apache-2.0
// tunectl compare NAME..., compare list|show
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/config_flag.h"
#include "client/cli/job_follow.h"
#include "client/cli/sweep_view.h"
#include "client/cli/work_id.h"
#include "client/report/comparison_view.h"
#include "client/report/format.h"
#include "tune/v1/comparison.grpc.pb.h"

namespace tune::client {
namespace {

constexpr size_t kSweptMax = 64;

struct CompareFlags {
  ProblemFlags problem;
  std::vector<std::string> kernels;  // "softmax", "mine=my/softmax.textproto"
  std::vector<std::string> configs;  // "mine: BLOCK=32"
  std::string sweep;                 // "cols=512..32768"
  std::string sweep_first;           // a budget
  uint32_t rounds = 7;
  double leg_seconds = 0;
  bool plain = false;
  bool detach = false;
  bool csv = false;
};

// "mine=my/softmax.textproto": a label before the name or the path.
std::pair<std::string, std::string> SplitLabel(const std::string& text) {
  const size_t equals = text.find('=');
  const bool has_label = equals != std::string::npos && equals > 0 &&
                         text.substr(0, equals).find_first_of("./") == std::string::npos;
  if (!has_label) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

absl::StatusOr<v1::ComparisonEntry> MakeEntry(const std::string& text) {
  RETURN_IF_ERROR(CheckIsNoDim(text));
  const auto [label, kernel] = SplitLabel(text);
  v1::ComparisonEntry entry;
  ASSIGN_OR_RETURN(const std::string name, SetKernel(kernel, entry));
  entry.set_label(label.empty() ? name : label);
  return entry;
}

// Sets the configs of the entries: "mine: BLOCK=32" is for one kernel, "BLOCK=32" for all.
absl::Status AddConfigs(const CompareFlags& flags, v1::SubmitComparisonRequest& request) {
  for (const std::string& text : flags.configs) {
    std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits(':', 1));
    const bool of_all = text.find(':') == std::string::npos;
    ASSIGN_OR_RETURN(const v1::Config config, ParseConfig(of_all ? text : sides.second));
    bool taken = false;
    for (v1::ComparisonEntry& entry : *request.mutable_entries()) {
      if (!of_all && entry.label() != absl::StripAsciiWhitespace(sides.first)) continue;
      *entry.mutable_config() = config;
      taken = true;
    }
    if (!taken) {
      return absl::InvalidArgumentError(
          absl::StrCat("--config '", text, "': no kernel is called '", sides.first, "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::SubmitComparisonRequest> MakeRequest(const CompareFlags& flags,
                                                        const Session& session) {
  if (flags.kernels.empty()) {
    return absl::InvalidArgumentError(
        "name the kernels, of the catalogue or your own: 'tunectl compare softmax "
        "my/softmax.textproto'");
  }
  if (flags.kernels.size() == 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a comparison needs two kernels or more: 'tunectl compare ", flags.kernels[0],
        " OTHER'; 'tunectl bench ", SplitLabel(flags.kernels[0]).second, "' measures one alone"));
  }
  v1::SubmitComparisonRequest request;
  for (const std::string& text : flags.kernels) {
    ASSIGN_OR_RETURN(v1::ComparisonEntry entry, MakeEntry(text));
    entry.set_default_config(flags.plain);
    *request.add_entries() = std::move(entry);
  }
  RETURN_IF_ERROR(AddConfigs(flags, request));
  RETURN_IF_ERROR(SetMeasured(session, flags.problem, request));
  if (!flags.sweep.empty()) {
    ASSIGN_OR_RETURN(const DimSweep sweep, ParseDimSweep(flags.sweep, kSweptMax));
    request.set_sweep_dim(sweep.dim);
    request.mutable_sweep_values()->Add(sweep.values.begin(), sweep.values.end());
  }
  request.set_rounds(flags.rounds);
  request.set_leg_seconds(flags.leg_seconds);
  return request;
}

using Dims = google::protobuf::Map<std::string, int64_t>;

absl::Status SweepOne(Connection& connection, const v1::SubmitComparisonRequest& comparison,
                      const v1::ComparisonEntry& entry, const Dims& dims, const v1::Budget& budget,
                      bool quiet) {
  v1::SubmitSweepRequest request;
  if (entry.has_kernel_source()) {
    *request.mutable_kernel_source() = entry.kernel_source();
  } else {
    request.set_kernel_name(entry.kernel_name());
  }
  *request.mutable_dims() = dims;
  request.set_dtype(comparison.dtype());
  request.set_device(comparison.device());
  request.set_cache_mode(comparison.cache_mode());
  request.set_seed(comparison.seed());
  *request.mutable_budget() = budget;
  return RunSweep(connection, request, quiet);
}

// Sweeps every kernel on every problem, so that the best config of each is known.
absl::Status SweepFirst(Connection& connection, const v1::SubmitComparisonRequest& request,
                        const CompareFlags& flags, bool quiet) {
  ASSIGN_OR_RETURN(const v1::Budget budget, ParseBudget(flags.sweep_first));
  std::vector<int64_t> values(request.sweep_values().begin(), request.sweep_values().end());
  if (values.empty()) values.push_back(0);
  for (const int64_t value : values) {
    Dims dims = request.dims();
    if (!request.sweep_dim().empty()) dims[request.sweep_dim()] = value;
    for (const v1::ComparisonEntry& entry : request.entries()) {
      if (entry.has_config() || entry.default_config()) continue;
      RETURN_IF_ERROR(SweepOne(connection, request, entry, dims, budget, quiet));
    }
  }
  return absl::OkStatus();
}

absl::Status PrintComparison(const Session& session, const v1::Comparison& comparison, bool csv) {
  return Print(session, comparison, [csv](const v1::Comparison& shown) {
    std::fputs((csv ? CsvText(shown) : TerminalText(shown)).c_str(), stdout);
  });
}

absl::Status Compare(Session& session, const CompareFlags& flags) {
  ASSIGN_OR_RETURN(const v1::SubmitComparisonRequest request, MakeRequest(flags, session));
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  if (flags.detach) RETURN_IF_ERROR(CheckDetach(*connection));
  if (!flags.sweep_first.empty()) {
    RETURN_IF_ERROR(SweepFirst(*connection, request, flags, session.json || flags.csv));
  }
  int64_t id = 0;
  const absl::Status status =
      RunJob<v1::Comparison>(session, flags.detach, &v1::CompareService::Stub::SubmitComparison,
                             request, [&](const v1::Comparison& one) { id = one.id(); });
  if (absl::IsCancelled(status)) {
    return absl::CancelledError(absl::StrCat(
        status.message(), id == 0 ? "; it had not started, so nothing is stored"
                                  : "; its measurements are stored: tunectl compare list"));
  }
  RETURN_IF_ERROR(status);
  if (flags.detach) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::Comparison comparison,
                   GetComparison(session, id, /*with_rounds=*/false));
  session.Finish(AllRight(comparison) ? kDone : kFailed);
  return PrintComparison(session, comparison, flags.csv);
}

absl::Status ListComparisons(Session& session, uint32_t limit) {
  ASSIGN_OR_RETURN(
      const v1::ListComparisonsResponse response,
      CallPages(session.Connect(Need::kRead), &v1::CompareService::Stub::ListComparisons, {}, limit,
                &v1::ListComparisonsResponse::mutable_comparisons));
  const auto row = [](const v1::Comparison& comparison) -> Cells {
    return {absl::StrCat(comparison.id()), ToText(comparison.state()),
            comparison.subject(),          comparison.sweep_dim(),
            comparison.device_id(),        TimeText(comparison.started_unix_ms())};
  };
  return PrintList(session, "comparisons", response.comparisons(),
                   {"id", "state", "kernels", "swept", "device", "started"}, row,
                   "no comparisons yet; try: tunectl compare softmax my/softmax.textproto\n");
}

absl::Status Show(Session& session, int64_t id, bool csv) {
  ASSIGN_OR_RETURN(const v1::Comparison comparison,
                   GetComparison(session, id, /*with_rounds=*/session.json));
  return PrintComparison(session, comparison, csv);
}

std::vector<Command> CompareVerbs(Session& session) {
  struct Flags {
    uint32_t limit = 20;
    int64_t id = 0;
    bool csv = false;
  };
  auto flags = std::make_shared<Flags>();
  return {
      {.name = "list",
       .help = "List comparisons, newest first",
       .json = kJsonHelp,
       .flags = {Flag("--limit", &flags->limit, kLimitHelp).Range(1, kListMax)},
       .run = [&session, flags] { return ListComparisons(session, flags->limit); }},
      {.name = "show",
       .help = "Show one comparison again",
       .json = "Print JSON, with every round and its samples",
       .flags = {Flag("ID", &flags->id, "Comparison id, as in 'tunectl compare list'").Required(),
                 Flag("--csv", &flags->csv, "Print CSV")},
       .run = [&session, flags] { return Show(session, flags->id, flags->csv); }}};
}

}  // namespace

Command CompareCommand(Session& session) {
  auto flags = std::make_shared<CompareFlags>();
  return {
      .name = "compare",
      .help = "Measure kernels of one function by turns: which is faster, do they agree?",
      .examples = {"tunectl compare softmax my/softmax.textproto --rows 8192 --cols 4096",
                   "tunectl compare softmax mine=my/softmax.textproto --sweep cols=512..32768",
                   "tunectl compare old=softmax new=my/softmax.textproto --sweep-first 30s",
                   "tunectl compare fast=softmax plain=softmax --config 'plain: ROW_THREADS=32'"},
      .notes =
          "Exit codes: 0 every kernel ran, and all results agree; 1 a kernel did not run, or "
          "its results differ.",
      .dims = true,
      .json = "Print the comparison as JSON",
      .flags = Joined(
          {Flag("KERNEL", &flags->kernels,
                "Names of the catalogue or paths of specs, in any language; LABEL=KERNEL renames "
                "one. Ratios are to the first"),
           Flag("--config", &flags->configs,
                "LABEL: PARAM=VALUE ...; the other params take their defaults; may be given "
                "several times; by default the best config known")
               .Repeated(),
           Flag("--default", &flags->plain, "Measure the specs' default configs"),
           Flag("--sweep", &flags->sweep,
                "Sizes of a dim: seq=512..16384 (doubling), seq=512..16384:512 or seq=512,4096"),
           Flag("--sweep-first", &flags->sweep_first,
                "Tune each kernel on each problem first: trials (100) or time (30s)"),
           Flag("--rounds", &flags->rounds, "Rounds, each in fresh processes").Range(1, 101),
           Flag("--leg-seconds", &flags->leg_seconds, "Maximum kernel time of a turn, in seconds")
               .Range(0.001, 10),
           Flag("--detach", &flags->detach, kDetachHelp), Flag("--csv", &flags->csv, "Print CSV")},
          MeasuredFlags(flags->problem)),
      .run = [&session, flags] { return Compare(session, *flags); },
      .verbs = CompareVerbs(session)};
}

}  // namespace tune::client
