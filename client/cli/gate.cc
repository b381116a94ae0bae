// SPDX-License-Identifier: Apache-2.0
// tunectl gate, gate list|show|recompute|resample
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/gate_call.h"
#include "client/cli/job_follow.h"
#include "client/cli/kernel_set.h"
#include "client/cli/sweep_view.h"
#include "client/cli/user_file.h"
#include "client/report/format.h"
#include "client/report/gate_report.h"
#include "tune/v1/gate.grpc.pb.h"

namespace tune::client {
namespace {

struct GateFlags {
  ProblemFlags problem;
  std::string base;
  std::string head;
  std::string baseline;
  std::string folder = "kernels";
  std::vector<std::string> kernels;
  std::string delta0;
  std::string max;
  std::string alpha;
  std::vector<std::string> tolerances;  // softmax=2%
  double retune_seconds = 0;
  double leg_seconds = 0;
  uint32_t study = 0;
  bool strict = false;
  std::string junit;
  std::string markdown;
  bool detach = false;
};

absl::StatusOr<std::map<std::string, double>> ParseTolerances(const GateFlags& flags) {
  std::map<std::string, double> tolerances;
  for (const std::string& text : flags.tolerances) {
    const std::vector<std::string> parts = absl::StrSplit(text, '=');
    if (parts.size() != 2) {
      return absl::InvalidArgumentError("--tolerance needs a kernel and a share: softmax=2%");
    }
    ASSIGN_OR_RETURN(tolerances[parts[0]], ParseShare("--tolerance", parts[1]));
  }
  return tolerances;
}

absl::Status CheckNamed(const std::set<std::string>& wanted, const KernelSet& head) {
  for (const std::string& name : wanted) {
    if (head.kernels.contains(name)) continue;
    std::vector<std::string> known;
    for (const auto& [kernel, source] : head.kernels) known.push_back(kernel);
    return absl::InvalidArgumentError(
        absl::StrCat("the head has no kernel '", name, "'; it has: ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

// Prints the kernels that only one side has, which are not gated.
void PrintUnpaired(const KernelSet& base, const KernelSet& head) {
  for (const auto& [set, other, word] :
       {std::tuple(&head, &base, "new"), std::tuple(&base, &head, "removed")}) {
    std::vector<std::string> names;
    for (const auto& [name, source] : set->kernels) {
      if (!other->kernels.contains(name)) names.push_back(name);
    }
    if (names.empty()) continue;
    std::fprintf(stderr, "not gated, %s: %s\n", word, absl::StrJoin(names, ", ").c_str());
  }
}

absl::Status AddEntries(const GateFlags& flags, v1::SubmitGateRequest& request) {
  ASSIGN_OR_RETURN(const auto tolerances, ParseTolerances(flags));
  ASSIGN_OR_RETURN(KernelSet head, ReadKernelSet(flags.head, flags.folder));
  KernelSet base;
  if (flags.baseline.empty()) {
    ASSIGN_OR_RETURN(base, ReadKernelSet(flags.base, flags.folder));
    if (flags.kernels.empty()) PrintUnpaired(base, head);
  }
  std::set<std::string> wanted(flags.kernels.begin(), flags.kernels.end());
  for (const auto& [kernel, tolerance] : tolerances) {
    if (!head.kernels.contains(kernel)) wanted.insert(kernel);  // to be named as unknown
  }
  RETURN_IF_ERROR(CheckNamed(wanted, head));
  request.set_base_label(flags.baseline.empty() ? base.label
                                                : absl::StrCat("baseline ", flags.baseline));
  request.set_head_label(head.label);
  for (auto& [name, source] : head.kernels) {
    if (!flags.kernels.empty() && !wanted.contains(name)) continue;
    auto paired = base.kernels.find(name);
    if (flags.baseline.empty() && paired == base.kernels.end()) {
      if (!flags.kernels.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("the base has no kernel '", name, "'"));
      }
      continue;
    }
    v1::GateEntry* entry = request.add_entries();
    if (flags.baseline.empty()) *entry->mutable_base() = std::move(paired->second);
    *entry->mutable_head() = std::move(source);
    if (auto it = tolerances.find(name); it != tolerances.end()) {
      entry->set_tolerance(it->second);
    }
  }
  if (!request.entries().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the base and the head have no kernel in common");
}

absl::StatusOr<v1::SubmitGateRequest> MakeRequest(const GateFlags& flags, const Session& session) {
  if (flags.head.empty() || flags.base.empty() == flags.baseline.empty()) {
    return absl::InvalidArgumentError(
        "name what to compare: 'tunectl gate --base main --head HEAD', or '--baseline NAME --head "
        ".'; a side is a git revision, a folder or a .textproto file");
  }
  v1::SubmitGateRequest request;
  request.set_kind(flags.study > 0 ? v1::GATE_KIND_STUDY : v1::GATE_KIND_GATE);
  RETURN_IF_ERROR(AddEntries(flags, request));
  double delta0 = 0;
  double delta_max = 0;
  double alpha = 0;
  for (const auto& [flag, text, value] :
       {std::tuple("--delta0", &flags.delta0, &delta0), std::tuple("--max", &flags.max, &delta_max),
        std::tuple("--alpha", &flags.alpha, &alpha)}) {
    if (text->empty()) continue;
    ASSIGN_OR_RETURN(*value, ParseShare(flag, *text));
  }
  request.mutable_rules()->set_delta0(delta0);
  request.mutable_rules()->set_delta_max(delta_max);
  request.mutable_rules()->set_alpha(alpha);
  request.mutable_rules()->set_screen_rounds(flags.study);
  RETURN_IF_ERROR(SetMeasured(session, flags.problem, request));
  request.set_baseline(flags.baseline);
  request.set_leg_seconds(flags.leg_seconds);
  return request;
}

absl::Status Tune(Connection& connection, const v1::SubmitGateRequest& gate,
                  const v1::KernelSource& source, double seconds, bool quiet) {
  v1::SubmitSweepRequest request;
  *request.mutable_kernel_source() = source;
  *request.mutable_dims() = gate.dims();
  request.set_dtype(gate.dtype());
  request.set_device(gate.device());
  request.set_cache_mode(gate.cache_mode());
  request.set_seed(gate.seed());
  request.mutable_budget()->set_seconds(seconds);
  return RunSweep(connection, request, quiet);
}

// Tunes both sides of each entry that differs, so that the best config of either is known.
absl::Status Retune(Connection& connection, const v1::SubmitGateRequest& request, double seconds,
                    bool quiet) {
  for (const v1::GateEntry& entry : request.entries()) {
    const auto same = [](const v1::KernelSource& a, const v1::KernelSource& b) {
      return a.spec_text() == b.spec_text() && a.files().size() == b.files().size() &&
             std::equal(a.files().begin(), a.files().end(), b.files().begin(),
                        [&](const auto& file, const auto&) {
                          auto it = b.files().find(file.first);
                          return it != b.files().end() && it->second == file.second;
                        });
    };
    if (entry.has_base() && same(entry.base(), entry.head())) continue;
    for (const v1::KernelSource* source : {&entry.base(), &entry.head()}) {
      if (source->spec_text().empty()) continue;
      RETURN_IF_ERROR(Tune(connection, request, *source, seconds, quiet));
    }
  }
  return absl::OkStatus();
}

absl::Status Gate(Session& session, const GateFlags& flags) {
  ASSIGN_OR_RETURN(const v1::SubmitGateRequest request, MakeRequest(flags, session));
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect());
  if (flags.detach) RETURN_IF_ERROR(CheckDetach(*connection));
  if (flags.retune_seconds > 0) {
    RETURN_IF_ERROR(Retune(*connection, request, flags.retune_seconds, session.json));
  }
  if (flags.detach) {
    ASSIGN_OR_RETURN(const v1::Job job, SubmitGate(*connection, request));
    return PrintDetached(session, job);
  }
  ASSIGN_OR_RETURN(const v1::GateRun run, RunGate(*connection, request, session.json));
  const Strict strict = flags.strict ? Strict::kYes : Strict::kNo;
  if (!flags.junit.empty()) RETURN_IF_ERROR(WriteFile(flags.junit, JUnitText(run, strict)));
  if (!flags.markdown.empty()) RETURN_IF_ERROR(WriteFile(flags.markdown, MarkdownText(run)));
  session.Finish(flags.study > 0 ? kDone : ExitCodeOf(run, strict));
  return Print(session, run, PrintGate);
}

constexpr auto kResampleTimeout = std::chrono::minutes(10);

struct VerbFlags {
  uint32_t limit = 20;
  int64_t id = 0;
  std::vector<int64_t> ids;
  uint32_t runs = 300;
  uint64_t seed = 1;
};

absl::Status ListGates(Session& session, const VerbFlags& flags) {
  ASSIGN_OR_RETURN(const v1::ListGatesResponse response,
                   CallPages(session.Connect(Need::kRead), &v1::GateService::Stub::ListGates, {},
                             flags.limit, &v1::ListGatesResponse::mutable_runs));
  const auto row = [](const v1::GateRun& run) -> Cells {
    return {absl::StrCat(run.id()),
            ToText(run.kind()),
            ToText(run.state()),
            run.base_label().substr(0, 12),
            run.head_label().substr(0, 12),
            run.device_id(),
            CountsText(run.verdicts()),
            TimeText(run.started_unix_ms())};
  };
  return PrintList(session, "gates", response.runs(),
                   {"id", "kind", "state", "base", "head", "device", "verdicts", "started"}, row,
                   "no gate runs yet; try: tunectl gate --base main --head .\n");
}

absl::Status Show(Session& session, const VerbFlags& flags) {
  v1::GetGateRequest request;
  request.set_run_id(flags.id);
  request.set_with_rounds(session.json);
  ASSIGN_OR_RETURN(const v1::GateRun run,
                   Call(session.Connect(Need::kRead), &v1::GateService::Stub::GetGate, request));
  return Print(session, run, PrintGate);
}

void PrintRecomputed(const v1::RecomputeGateResponse& response) {
  PrintGate(response.run());
  if (response.differences().empty()) {
    std::printf("recomputed from the stored samples: the same %d verdicts\n",
                response.run().kernels_size());
  }
}

absl::Status Recompute(Session& session, const VerbFlags& flags) {
  v1::RecomputeGateRequest request;
  request.set_run_id(flags.id);
  ASSIGN_OR_RETURN(
      const v1::RecomputeGateResponse response,
      Call(session.Connect(Need::kRead), &v1::GateService::Stub::RecomputeGate, request));
  RETURN_IF_ERROR(Print(session, response, PrintRecomputed));
  for (const std::string& difference : response.differences()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
  }
  session.Finish(response.differences().empty() ? kDone : kFailed);
  return absl::OkStatus();
}

void PrintResampled(const v1::ResampleGateResponse& response) {
  std::printf("%s",
              fmt::format("{} of {} runs failed: with 95 % confidence at most {:.3f} % do\n"
                          "drawn from {} rounds of {} kernels; {:.2f} flagged a run; "
                          "autocorrelation at most {:.2f}\n",
                          response.failed_runs(), response.runs(), 100 * response.failed_bound(),
                          response.rounds(), response.kernels(), response.flagged_per_run(),
                          response.autocorrelation_max())
                  .c_str());
  for (const auto& [kernel, failures] : response.failures()) {
    std::printf("%s failed %u times\n", kernel.c_str(), failures);
  }
}

absl::Status Resample(Session& session, const VerbFlags& flags) {
  v1::ResampleGateRequest request;
  request.mutable_run_ids()->Add(flags.ids.begin(), flags.ids.end());
  request.set_runs(flags.runs);
  request.set_seed(flags.seed);
  ASSIGN_OR_RETURN(const v1::ResampleGateResponse response,
                   Call(session.Connect(Need::kRead), &v1::GateService::Stub::ResampleGate, request,
                        kResampleTimeout));
  return Print(session, response, PrintResampled);
}

std::vector<Command> GateVerbs(Session& session) {
  auto flags = std::make_shared<VerbFlags>();
  const Flag id = Flag("ID", &flags->id, "Run id, as in 'tunectl gate list'").Required();
  return {{.name = "list",
           .help = "List gate runs, newest first",
           .json = kJsonHelp,
           .flags = {Flag("--limit", &flags->limit, kLimitHelp).Range(1, kListMax)},
           .run = [&session, flags] { return ListGates(session, *flags); }},
          {.name = "show",
           .help = "Show one run with its verdicts",
           .json = "Print JSON, with every round",
           .flags = {id},
           .run = [&session, flags] { return Show(session, *flags); }},
          {.name = "recompute",
           .help = "Recompute a run's verdicts from its stored samples",
           .json = kJsonHelp,
           .flags = {id},
           .run = [&session, flags] { return Recompute(session, *flags); }},
          {.name = "resample",
           .help = "Draw runs from studies of one revision against itself: what share fails?",
           .json = kJsonHelp,
           .flags = {Flag("ID", &flags->ids, "Run ids of the studies").Required(),
                     Flag("--runs", &flags->runs, "Number of runs to draw").Range(1, 100000),
                     Flag("--seed", &flags->seed, "Seed of the draws")},
           .run = [&session, flags] { return Resample(session, *flags); }}};
}

}  // namespace

Command GateCommand(Session& session) {
  auto flags = std::make_shared<GateFlags>();
  return {
      .name = "gate",
      .help = "Compare the kernels of two revisions: did one become slower?",
      .examples =
          {"tunectl gate --base main --head HEAD                  the kernels of two commits",
           "tunectl gate --base main --head . --kernels softmax   main against the working folder",
           "tunectl gate --base a.textproto --head b.textproto --rows 8192",
           "tunectl gate --baseline released --head . --markdown comment.md --junit gate.xml"},
      .notes =
          "Exit codes: 0 no kernel is slower; 5 a kernel is slower; 6 one could not be measured, "
          "or, with\n--strict, not decided. What a verdict promises: docs/gate.md.",
      .dims = true,
      .json = "Print the run as JSON",
      .flags = Joined(
          {Flag("--base", &flags->base, "Git revision, folder or .textproto file to compare with"),
           Flag("--head", &flags->head, "Git revision, folder or .textproto file to judge"),
           Flag("--baseline", &flags->baseline, "Stored baseline to compare with"),
           Flag("--folder", &flags->folder, kFolderHelp),
           Flag("--kernels", &flags->kernels, kKernelsHelp).Commas(),
           Flag("--delta0", &flags->delta0, "Tolerated slowdown (default 1%)"),
           Flag("--max", &flags->max, "Slowdown that must be excluded for a pass (default 5%)"),
           Flag("--alpha", &flags->alpha,
                "Share of runs without a change that may fail (default 1%)"),
           Flag("--tolerance", &flags->tolerances, "Tolerance of one kernel: softmax=2%"),
           Flag("--strict", &flags->strict, "Exit with 6 for INCONCLUSIVE and UNGUARDED"),
           Flag("--retune", &flags->retune_seconds,
                "Tune both sides of each change first, this many seconds each")
               .Range(1, 86400),
           Flag("--leg-seconds", &flags->leg_seconds, "Maximum kernel time of a leg, in seconds")
               .Range(0.001, 10),
           Flag("--study", &flags->study,
                "Measure this many rounds, of equal code too, and give no verdict")
               .Range(1, 1000),
           Flag("--junit", &flags->junit, "File to write JUnit XML to"),
           Flag("--markdown", &flags->markdown, "File to write a comment for a pull request to"),
           Flag("--detach", &flags->detach, kDetachHelp)},
          MeasuredFlags(flags->problem)),
      .run = [&session, flags] { return Gate(session, *flags); },
      .verbs = GateVerbs(session)};
}

}  // namespace tune::client
