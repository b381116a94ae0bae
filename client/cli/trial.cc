// SPDX-License-Identifier: Apache-2.0
// tunectl trial list
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/work_id.h"
#include "client/report/format.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

struct TrialFlags {
  std::string sweep;
  std::string purpose;
  std::string sort = "id";
  bool csv = false;
  bool samples = false;
};

absl::StatusOr<std::vector<v1::Trial>> Fetch(Connection* connection, int64_t sweep_id,
                                             const TrialFlags& flags) {
  v1::ListTrialsRequest request;
  request.set_sweep_id(sweep_id);
  request.set_with_samples(flags.samples);
  if (flags.purpose == "search") request.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
  if (flags.purpose == "confirm") request.set_purpose(v1::TRIAL_PURPOSE_CONFIRM);
  std::vector<v1::Trial> trials;
  RETURN_IF_ERROR(CallStream(connection, &v1::SweepService::Stub::ListTrials, request,
                             [&](v1::Trial& trial) { trials.push_back(std::move(trial)); }));
  return trials;
}

// Sorts the ok trials first, the fastest first, equally fast ones by their configs.
void SortByTime(std::vector<v1::Trial>& trials) {
  const auto key = [](const v1::Trial& trial) {
    const bool ok = trial.outcome() == v1::OUTCOME_OK;
    return std::make_tuple(!ok, ok ? trial.measurement().latency_ns_median() : 0,
                           ToText(trial.config()), trial.id());
  };
  std::sort(trials.begin(), trials.end(),
            [&](const v1::Trial& a, const v1::Trial& b) { return key(a) < key(b); });
}

void PrintCsv(const std::vector<v1::Trial>& trials) {
  std::vector<std::string> titles = {"id", "purpose", "outcome"};
  if (!trials.empty()) {
    for (const v1::ConfigEntry& entry : trials[0].config().entries()) {
      titles.push_back(entry.param());
    }
  }
  for (const char* title :
       {"latency_ns_median", "latency_ns_low", "latency_ns_high", "latency_ns_min", "sample_count",
        "clock", "bytes_per_second", "flops_per_second", "peak_fraction", "registers",
        "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes", "sm_clock_mhz", "power_mw",
        "relative_l2_error", "compile_seconds", "evaluate_seconds", "message"}) {
    titles.push_back(title);
  }
  std::string text = CsvLine(titles);
  for (const v1::Trial& trial : trials) {
    std::vector<std::string> cells = {absl::StrCat(trial.id()), ToText(trial.purpose()),
                                      ToText(trial.outcome())};
    for (const v1::ConfigEntry& entry : trial.config().entries()) {
      cells.push_back(ToText(entry.value()));
    }
    const auto add = [&](std::initializer_list<double> numbers) {
      for (const double number : numbers) cells.push_back(fmt::format("{}", number));
    };
    const v1::Measurement& m = trial.measurement();
    const v1::Resources& r = trial.resources();
    add({m.latency_ns_median(), m.latency_ns_low(), m.latency_ns_high(), m.latency_ns_min(),
         double(m.sample_count())});
    cells.push_back(ToText(m.clock()));
    add({m.bytes_per_second(), m.flops_per_second(), m.peak_fraction(), double(r.registers()),
         double(r.spill_bytes()), double(r.static_shared_bytes()), double(r.dynamic_shared_bytes()),
         double(trial.telemetry().sm_clock_mhz()), double(trial.telemetry().power_mw()),
         trial.error().relative_l2(), trial.compile_seconds(), trial.evaluate_seconds()});
    cells.push_back(TellingLine(trial.message()));
    absl::StrAppend(&text, CsvLine(cells));
  }
  std::fputs(text.c_str(), stdout);
}

absl::Status ListTrials(Session& session, const TrialFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  if (flags.sweep.empty()) {
    return absl::InvalidArgumentError(
        "name the sweep: 'tunectl trial list 12'; 'tunectl sweep list' shows them");
  }
  ASSIGN_OR_RETURN(const v1::Sweep sweep, FindSweep(*connection, flags.sweep));
  ASSIGN_OR_RETURN(auto trials, Fetch(connection, sweep.id(), flags));
  if (flags.sort == "time") SortByTime(trials);
  if (flags.csv && !session.json) {
    PrintCsv(trials);
    return absl::OkStatus();
  }
  const auto row = [&](const v1::Trial& trial) -> Cells {
    const v1::Measurement& m = trial.measurement();
    const bool ok = trial.outcome() == v1::OUTCOME_OK;
    return {absl::StrCat(trial.id()),
            ToText(trial.purpose()),
            ToText(trial.outcome()),
            ok ? LatencyText(m.latency_ns_median()) : "-",
            ok && m.bytes_per_second() > 0 ? BandwidthText(m.bytes_per_second()) : "-",
            ok && m.flops_per_second() > 0 ? FlopRateText(m.flops_per_second()) : "-",
            absl::StrCat(trial.resources().registers()),
            ToText(trial.config(), sweep.fixed_params()),
            TellingLine(trial.message())};
  };
  return PrintList(
      session, "trials", trials,
      {"id", "purpose", "outcome", "median", "bandwidth", "compute", "regs", "config", "message"},
      row);
}

}  // namespace

Command TrialCommand(Session& session) {
  const auto flags = std::make_shared<TrialFlags>();
  return {
      .name = "trial",
      .help = "The trials of a sweep",
      .verbs = {
          {.name = "list",
           .help = "List every trial of a sweep",
           .json = kJsonHelp,
           .flags =
               {Flag("SWEEP", &flags->sweep, kSweepIdHelp),
                Flag("--sweep", &flags->sweep, "Sweep id (same as SWEEP)").NotWith("SWEEP"),
                Flag("--purpose", &flags->purpose,
                     "Only trials of the search, or only confirmations in fresh processes")
                    .OneOf({"search", "confirm"}),
                Flag("--sort", &flags->sort,
                     "id: the oldest first; time: the fastest first, equally fast ones by config")
                    .OneOf({"id", "time"}),
                Flag("--csv", &flags->csv, "Print CSV, a column for each param").NotWith("--json"),
                Flag("--samples", &flags->samples, "Print every sample, too").Needs("--json")},
           .run = [&session, flags] { return ListTrials(session, *flags); }}}};
}

}  // namespace tune::client
