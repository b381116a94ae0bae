// SPDX-License-Identifier: Apache-2.0
// tunectl gate
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/gate_call.h"
#include "client/cli/job_follow.h"
#include "client/cli/kernel_set.h"
#include "client/cli/sweep_view.h"
#include "client/cli/user_file.h"
#include "client/connect/rpc.h"
#include "client/report/gate_report.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  tunectl gate --base main --head HEAD                  the kernels of two commits\n"
    "  tunectl gate --base main --head . --kernels softmax   main against the working folder\n"
    "  tunectl gate --base a.textproto --head b.textproto --rows 8192\n"
    "  tunectl gate --baseline released --head . --markdown comment.md --junit gate.xml\n"
    "Exit codes: 0 nothing is slower; 5 a kernel is slower; 6 one could not be measured, or with\n"
    "--strict one could not be told. What a verdict promises: docs/gate.md.\n";

struct GateFlags {
  std::string base;
  std::string head;
  std::string baseline;
  std::string folder = "kernels";
  std::vector<std::string> kernels;
  std::string dtype;
  std::string device;
  std::string delta0;
  std::string max;
  std::string alpha;
  std::vector<std::string> tolerances;  // softmax=2%
  double retune_seconds = 0;
  double leg_seconds = 0;
  uint32_t study = 0;
  uint64_t seed = 1;
  bool warm = false;
  bool strict = false;
  std::string junit;
  std::string markdown;
  bool detach = false;
  bool json = false;
};

absl::Status SetShare(const char* flag, const std::string& text, double* value) {
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<double> share = ParseShare(flag, text);
  if (share.ok()) *value = *share;
  return share.status();
}

absl::StatusOr<std::map<std::string, double>> ParseTolerances(const GateFlags& flags) {
  std::map<std::string, double> tolerances;
  for (const std::string& text : flags.tolerances) {
    const std::vector<std::string> parts = absl::StrSplit(text, '=');
    absl::StatusOr<double> share = ParseShare("--tolerance", parts.size() == 2 ? parts[1] : text);
    if (parts.size() != 2) {
      return absl::InvalidArgumentError("--tolerance needs a kernel and a share: softmax=2%");
    }
    if (!share.ok()) return share.status();
    tolerances[parts[0]] = *share;
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

// Says which kernels only one side has; they are not gated.
void TellUnpaired(const KernelSet& base, const KernelSet& head) {
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
  auto tolerances = ParseTolerances(flags);
  if (!tolerances.ok()) return tolerances.status();
  auto head = ReadKernelSet(flags.head, flags.folder);
  if (!head.ok()) return head.status();
  KernelSet base;
  if (flags.baseline.empty()) {
    auto read = ReadKernelSet(flags.base, flags.folder);
    if (!read.ok()) return read.status();
    base = *std::move(read);
    if (flags.kernels.empty()) TellUnpaired(base, *head);
  }
  std::set<std::string> wanted(flags.kernels.begin(), flags.kernels.end());
  for (const auto& [kernel, tolerance] : *tolerances) {
    if (!head->kernels.contains(kernel)) wanted.insert(kernel);  // to be named as unknown
  }
  if (absl::Status named = CheckNamed(wanted, *head); !named.ok()) return named;
  request.set_base_label(flags.baseline.empty() ? base.label
                                                : absl::StrCat("baseline ", flags.baseline));
  request.set_head_label(head->label);
  for (auto& [name, source] : head->kernels) {
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
    if (auto it = tolerances->find(name); it != tolerances->end()) {
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
  absl::Status status = AddEntries(flags, request);
  if (!status.ok()) return status;
  double delta0 = 0;
  double delta_max = 0;
  double alpha = 0;
  for (const auto& [flag, text, value] :
       {std::tuple("--delta0", &flags.delta0, &delta0), std::tuple("--max", &flags.max, &delta_max),
        std::tuple("--alpha", &flags.alpha, &alpha)}) {
    status = SetShare(flag, *text, value);
    if (!status.ok()) return status;
  }
  request.mutable_rules()->set_delta0(delta0);
  request.mutable_rules()->set_delta_max(delta_max);
  request.mutable_rules()->set_alpha(alpha);
  request.mutable_rules()->set_screen_rounds(flags.study);
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  request.set_baseline(flags.baseline);
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  request.set_cache_mode(flags.warm ? v1::CACHE_MODE_WARM : v1::CACHE_MODE_COLD);
  request.set_seed(flags.seed);
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

// Both sides of what differs, so that either's best config is known.
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
      absl::Status status = Tune(connection, request, *source, seconds, quiet);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Gate(Session& session, const GateFlags& flags) {
  auto request = MakeRequest(flags, session);
  if (!request.ok()) return request.status();
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  if (flags.detach) {
    if (absl::Status can = CheckDetach(**connection); !can.ok()) return can;
  }
  if (flags.retune_seconds > 0) {
    absl::Status tuned = Retune(**connection, *request, flags.retune_seconds, flags.json);
    if (!tuned.ok()) return tuned;
  }
  if (flags.detach) {
    const auto job = SubmitGate(**connection, *request);
    return job.ok() ? PrintDetached(*job, flags.json) : job.status();
  }
  auto run = RunGate(**connection, *request, flags.json);
  if (!run.ok()) return run.status();
  const Strict strict = flags.strict ? Strict::kYes : Strict::kNo;
  for (const auto& [path, text] : {std::pair(flags.junit, JUnitText(*run, strict)),
                                   std::pair(flags.markdown, MarkdownText(*run))}) {
    if (path.empty()) continue;
    if (absl::Status written = WriteFile(path, text); !written.ok()) return written;
  }
  if (flags.json) {
    PrintJson(*run);
  } else {
    std::fputs(ReportText(*run).c_str(), stdout);
  }
  session.Finish(flags.study > 0 ? kDone : ExitCodeOf(*run, strict));
  return absl::OkStatus();
}

}  // namespace

void AddGate(CLI::App& app, Session& session) {
  auto flags = std::make_shared<GateFlags>();
  CLI::App* gate = app.add_subcommand(
      "gate",
      std::string("Did a change make a kernel slower? Compare two revisions.\n") + kExamples);
  gate->add_option("--base", flags->base, "Git revision, folder or .textproto to compare with");
  gate->add_option("--head", flags->head, "Git revision, folder or .textproto file to judge");
  gate->add_option("--baseline", flags->baseline, "Stored baseline to compare with");
  gate->add_option("--folder", flags->folder, "Where a revision keeps its kernels")
      ->capture_default_str();
  gate->add_option("--kernels", flags->kernels, "Only these, separated by commas")->delimiter(',');
  gate->add_option("--dtype", flags->dtype, "Data type; by default each spec's first");
  gate->add_option("--device", flags->device, "Device id, such as cuda:0 or cpu, or any");
  gate->add_option("--delta0", flags->delta0, "Tolerated slowdown (1%)");
  gate->add_option("--max", flags->max, "Pass only what is surely not this much slower (5%)");
  gate->add_option("--alpha", flags->alpha, "How often a run without a change may fail (1%)");
  gate->add_option("--tolerance", flags->tolerances, "A kernel's own tolerance: softmax=2%");
  gate->add_flag("--strict", flags->strict, "INCONCLUSIVE and UNGUARDED exit with 6");
  gate->add_option("--retune", flags->retune_seconds,
                   "First tune both sides of what changed, this many seconds each")
      ->check(CLI::Range(1.0, 86400.0));
  gate->add_option("--leg-seconds", flags->leg_seconds, "Kernel time of a leg at most")
      ->check(CLI::Range(0.001, 10.0));
  gate->add_option("--study", flags->study,
                   "Measure so many rounds, equal code or not, and give no verdict")
      ->check(CLI::Range(1, 1000));
  gate->add_option("--seed", flags->seed, "Seed of the inputs and of the order")
      ->check(RefuseMinus)
      ->capture_default_str();
  gate->add_flag("--warm", flags->warm, "Leave the cache warm between samples");
  gate->add_option("--junit", flags->junit, "Write JUnit XML to this file");
  gate->add_option("--markdown", flags->markdown, "Write a comment for a pull request");
  gate->add_flag("--detach", flags->detach, kDetachHelp);
  gate->add_flag("--json", flags->json, "Print the run as JSON");
  AddGateVerbs(*gate, session);
  gate->callback([flags, gate, &session] {
    if (!gate->get_subcommands().empty()) return;
    const absl::Status status = Gate(session, *flags);
    if (!status.ok()) session.Finish(status);
  });
}

}  // namespace tune::client
