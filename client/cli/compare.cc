// SPDX-License-Identifier: Apache-2.0
// tunectl compare NAME..., compare list|show
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/commands.h"
#include "client/cli/comparison_call.h"
#include "client/cli/config_flag.h"
#include "client/cli/dim_flags.h"
#include "client/cli/job_follow.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/cli/sweep_flags.h"
#include "client/cli/sweep_view.h"
#include "client/report/comparison_view.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/comparison.grpc.pb.h"

namespace tune::client {
namespace {

constexpr size_t kSweptMax = 64;

constexpr char kExamples[] =
    "Examples:\n"
    "  tunectl compare softmax my/softmax.textproto --rows 8192 --cols 4096\n"
    "  tunectl compare softmax mine=my/softmax.textproto --sweep cols=512..32768\n"
    "  tunectl compare old=softmax new=my/softmax.textproto --sweep-first 30s\n"
    "  tunectl compare fast=softmax plain=softmax --config 'plain: BLOCK=32'\n"
    "Exit codes: 0 every kernel ran, and all results agree; 1 one did not, or differs.\n";

struct CompareFlags {
  std::vector<std::string> kernels;  // "softmax", "mine=my/softmax.textproto"
  std::vector<std::string> configs;  // "mine: BLOCK=32"
  std::string sweep;                 // "cols=512..32768"
  std::string sweep_first;           // a budget
  std::string dtype;
  std::string device;
  uint32_t rounds = 7;
  double leg_seconds = 0;
  uint64_t seed = 1;
  bool plain = false;
  bool warm = false;
  bool detach = false;
  bool json = false;
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
  const auto [label, kernel] = SplitLabel(text);
  v1::ComparisonEntry entry;
  entry.set_label(label);
  if (!IsSpecPath(kernel)) {
    entry.set_kernel_name(kernel);
    if (label.empty()) entry.set_label(kernel);
    return entry;
  }
  auto files = ReadKernelFiles(kernel);
  if (!files.ok()) return files.status();
  if (label.empty()) entry.set_label(files->spec.name());
  *entry.mutable_kernel_source() = std::move(files->source);
  return entry;
}

// "mine: BLOCK=32" is of one kernel, "BLOCK=32" of all.
absl::Status AddConfigs(const CompareFlags& flags, v1::SubmitComparisonRequest& request) {
  for (const std::string& text : flags.configs) {
    std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits(':', 1));
    const bool of_all = text.find(':') == std::string::npos;
    auto config = ParseConfig(of_all ? text : sides.second);
    if (!config.ok()) return config.status();
    bool taken = false;
    for (v1::ComparisonEntry& entry : *request.mutable_entries()) {
      if (!of_all && entry.label() != absl::StripAsciiWhitespace(sides.first)) continue;
      *entry.mutable_config() = *config;
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
    return absl::InvalidArgumentError(
        absl::StrCat("a comparison needs two kernels or more: 'tunectl compare ", flags.kernels[0],
                     " OTHER'; 'tunectl bench ", flags.kernels[0], "' measures one alone"));
  }
  v1::SubmitComparisonRequest request;
  for (const std::string& text : flags.kernels) {
    auto entry = MakeEntry(text);
    if (!entry.ok()) return entry.status();
    entry->set_default_config(flags.plain);
    *request.add_entries() = *std::move(entry);
  }
  if (absl::Status added = AddConfigs(flags, request); !added.ok()) return added;
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  if (!flags.sweep.empty()) {
    auto sweep = ParseDimSweep(flags.sweep, kSweptMax);
    if (!sweep.ok()) return sweep.status();
    request.set_sweep_dim(sweep->dim);
    request.mutable_sweep_values()->Add(sweep->values.begin(), sweep->values.end());
  }
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  request.set_cache_mode(flags.warm ? v1::CACHE_MODE_WARM : v1::CACHE_MODE_COLD);
  request.set_seed(flags.seed);
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

// Every kernel on every problem, so that the best config of each is known.
absl::Status SweepFirst(Connection& connection, const v1::SubmitComparisonRequest& request,
                        const CompareFlags& flags) {
  auto budget = ParseBudget(flags.sweep_first);
  if (!budget.ok()) return budget.status();
  std::vector<int64_t> values(request.sweep_values().begin(), request.sweep_values().end());
  if (values.empty()) values.push_back(0);
  for (const int64_t value : values) {
    Dims dims = request.dims();
    if (!request.sweep_dim().empty()) dims[request.sweep_dim()] = value;
    for (const v1::ComparisonEntry& entry : request.entries()) {
      if (entry.has_config() || entry.default_config()) continue;
      absl::Status swept =
          SweepOne(connection, request, entry, dims, *budget, flags.json || flags.csv);
      if (!swept.ok()) return swept;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Comparison> AwaitComparison(Session& session, Connection& connection,
                                               const v1::Job& job) {
  int64_t id = 0;
  const absl::Status status = AwaitJob(connection, job, [&](const v1::JobEvent& event) {
    ForEachResult<v1::Comparison>(event, [&](const v1::Comparison& one) { id = one.id(); });
  });
  if (absl::IsCancelled(status)) {
    return absl::CancelledError(
        absl::StrCat(status.message(), "; what was measured is stored: tunectl compare list"));
  }
  RETURN_IF_ERROR(status);
  return GetComparison(session, id, /*with_rounds=*/false);
}

void Print(const v1::Comparison& comparison, bool json, bool csv) {
  if (json) {
    PrintJson(comparison);
  } else {
    std::fputs((csv ? CsvText(comparison) : TerminalText(comparison)).c_str(), stdout);
  }
}

absl::Status Compare(Session& session, const CompareFlags& flags) {
  ASSIGN_OR_RETURN(const v1::SubmitComparisonRequest request, MakeRequest(flags, session));
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  if (flags.detach) RETURN_IF_ERROR(CheckDetach(*connection));
  if (!flags.sweep_first.empty()) RETURN_IF_ERROR(SweepFirst(*connection, request, flags));
  ASSIGN_OR_RETURN(const v1::Job job,
                   Call(connection, &v1::CompareService::Stub::SubmitComparison, request));
  if (flags.detach) return PrintDetached(job, flags.json);
  ASSIGN_OR_RETURN(const v1::Comparison comparison, AwaitComparison(session, *connection, job));
  Print(comparison, flags.json, flags.csv);
  session.Finish(AllRight(comparison) ? kDone : kFailed);
  return absl::OkStatus();
}

absl::Status List(Session& session, uint32_t limit, bool json) {
  ASSIGN_OR_RETURN(
      const v1::ListComparisonsResponse response,
      CallPages(session.Connect(Need::kRead), &v1::CompareService::Stub::ListComparisons, {}, limit,
                &v1::ListComparisonsResponse::mutable_comparisons));
  if (json) {
    PrintJsonList("comparisons", response.comparisons());
    return absl::OkStatus();
  }
  Table table({"id", "state", "kernels", "swept", "device", "started"});
  for (const v1::Comparison& comparison : response.comparisons()) {
    table.Add({absl::StrCat(comparison.id()),
               absl::AsciiStrToLower(
                   absl::StripPrefix(v1::JobState_Name(comparison.state()), "JOB_STATE_")),
               comparison.subject(), comparison.sweep_dim(), comparison.device_id(),
               TimeText(comparison.started_unix_ms())});
  }
  std::fputs(table.Text().c_str(), stdout);
  if (response.comparisons().empty()) {
    std::fputs("no comparisons yet; try: tunectl compare softmax my/softmax.textproto\n", stderr);
  }
  return absl::OkStatus();
}

absl::Status Show(Session& session, int64_t id, bool json, bool csv) {
  ASSIGN_OR_RETURN(const v1::Comparison comparison,
                   GetComparison(session, id, /*with_rounds=*/json));
  Print(comparison, json, csv);
  return absl::OkStatus();
}

void AddVerbs(CLI::App& compare, Session& session) {
  compare.require_subcommand(0, 1);
  auto json = std::make_shared<bool>(false);
  auto csv = std::make_shared<bool>(false);
  auto limit = std::make_shared<uint32_t>(20);
  auto id = std::make_shared<int64_t>(0);

  CLI::App* list = compare.add_subcommand("list", "Comparisons, newest first");
  list->add_option("--limit", *limit, "How many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json, limit] { session.Finish(List(session, *limit, *json)); });

  CLI::App* show = compare.add_subcommand("show", "One comparison again");
  show->add_option("ID", *id, "Comparison")->required();
  show->add_flag("--json", *json, "As JSON, with every round and its samples");
  show->add_flag("--csv", *csv, "As CSV");
  show->callback([&session, id, json, csv] { session.Finish(Show(session, *id, *json, *csv)); });
}

}  // namespace

void AddCompare(CLI::App& app, Session& session) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* compare = app.add_subcommand(
      "compare",
      std::string("Measure kernels of one function by turns: which is faster, do they agree?\n") +
          kExamples);
  compare->add_option("KERNEL", flags->kernels,
                      "Names of the catalogue or paths of specs, in any language; LABEL=KERNEL "
                      "calls one by another name. Ratios are to the first");
  compare
      ->add_option("--config", flags->configs,
                   "LABEL: PARAM=VALUE ...; the others take their defaults; may be given again. By "
                   "default the best config known")
      ->allow_extra_args(false);
  compare->add_flag("--default", flags->plain, "The specs' default configs");
  compare->add_option("--sweep", flags->sweep,
                      "Sizes of a dim: seq=512..16384 (doubling), seq=512..16384:512 or "
                      "seq=512,4096");
  compare->add_option("--sweep-first", flags->sweep_first,
                      "Tune each kernel on each problem first: trials (100) or time (30s)");
  compare->add_option("--dtype", flags->dtype, "Data type; by default the first spec's first");
  compare->add_option("--device", flags->device, "Device id, such as cuda:0 or cpu, or any");
  compare->add_option("--rounds", flags->rounds, "Rounds, each in fresh processes")
      ->check(CLI::Range(1, 101))
      ->capture_default_str();
  compare->add_option("--leg-seconds", flags->leg_seconds, "Kernel time of a turn at most")
      ->check(CLI::Range(0.001, 10.0));
  compare->add_option("--seed", flags->seed, "Seed of the inputs and of the order")
      ->check(RefuseMinus)
      ->capture_default_str();
  compare->add_flag("--warm", flags->warm, "Leave the cache warm between samples");
  compare->add_flag("--detach", flags->detach, kDetachHelp);
  compare->add_flag("--json", flags->json, "Print the comparison as JSON");
  compare->add_flag("--csv", flags->csv, "Print it as CSV");
  AddVerbs(*compare, session);
  compare->callback([flags, compare, &session] {
    if (!compare->get_subcommands().empty()) return;
    const absl::Status status = Compare(session, *flags);
    if (!status.ok()) session.Finish(status);
  });
}

}  // namespace tune::client
