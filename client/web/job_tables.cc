// SPDX-License-Identifier: Apache-2.0
#include "client/web/job_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/plural.h"
#include "client/report/format.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_chart.h"
#include "client/web/html.h"
#include "client/web/page_request.h"

namespace tune::client {
namespace {

std::string JobLink(const v1::Job& job) {
  return LinkHtml(absl::StrCat("/jobs/", job.id()), absl::StrCat(job.id()));
}

std::string KindText(const v1::Job& job) { return ToText(job.kind()); }

std::string StateHtml(const v1::Job& job) {
  const v1::Sweep sweep = SweepOf(job);
  const std::string text = sweep.interrupted() ? "interrupted" : ToText(job.state());
  return absl::StrCat("<span class=\"state ", ToText(job.state()), "\">", EscapeXml(text),
                      "</span>");
}

std::string FirstLine(const std::string& text) {
  return std::string(*absl::StrSplit(text, '\n').begin());
}

// How long a running job still takes, if it says so.
std::optional<double> SecondsLeft(const v1::Job& job) {
  const double left = SweepOf(job).progress().remaining_seconds();
  if (job.state() != v1::JOB_STATE_RUNNING || !(left > 0)) return std::nullopt;
  return left;
}

double BestOf(const v1::Sweep& sweep) {
  return sweep.has_result() ? sweep.result().best().measurement().latency_ns_median()
                            : sweep.progress().best_latency_ns();
}

std::string BestText(const v1::Sweep& sweep) {
  return BestOf(sweep) > 0 ? LatencyText(BestOf(sweep)) : "-";
}

std::string CeilingText(const v1::Ceiling& ceiling, double value) {
  if (ceiling.unit() == "ns") return LatencyText(value);
  return SiText(value, ceiling.unit());
}

// "12, the oldest 3 h 5 min ago; 2 stale".
std::string CeilingsHtml(const v1::Device& device) {
  int64_t oldest = 0;
  int stale = 0, measured = 0;
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    if (ceiling.source() != v1::CEILING_SOURCE_MEASURED) continue;
    ++measured;
    stale += ceiling.stale();
    const int64_t at = ceiling.measured_unix_ms();
    if (oldest == 0 || at < oldest) oldest = at;
  }
  if (measured == 0) return "not measured";
  return absl::StrCat(measured, ", the oldest ", AgoHtml(oldest),
                      stale > 0 ? absl::StrCat("; <b>", stale, " stale</b>") : "");
}

}  // namespace

bool IsUnfinished(const v1::Job& job) { return job.finished_unix_ms() == 0; }

v1::Sweep SweepOf(const v1::Job& job) {
  v1::Sweep sweep;
  for (const auto& any : job.results()) {
    if (any.Is<v1::Sweep>()) any.UnpackTo(&sweep);
  }
  return sweep;
}

std::string UnfinishedTableHtml(const std::vector<v1::Job>& jobs) {
  // In the order in which they may run: the running ones, then the oldest.
  std::vector<const v1::Job*> ordered;
  for (const v1::Job& job : jobs) ordered.push_back(&job);
  std::stable_sort(ordered.begin(), ordered.end(), [](const v1::Job* a, const v1::Job* b) {
    const auto rank = [](const v1::Job& job) {
      return std::tuple(job.state() != v1::JOB_STATE_RUNNING,
                        job.priority() == v1::JOB_PRIORITY_BACKGROUND, job.id());
    };
    return rank(*a) < rank(*b);
  });
  RowsHtml rows;
  std::map<std::string, std::optional<double>> free_in;  // by device; nullopt: nobody knows
  for (const v1::Job* const job : ordered) {
    const v1::Sweep sweep = SweepOf(*job);
    const auto known = free_in.try_emplace(job->device_id(), 0.0).first;
    std::string when = "next";
    if (job->state() == v1::JOB_STATE_RUNNING) {
      const std::optional<double> left = SecondsLeft(*job);
      when = left ? absl::StrCat(DurationText(*left), " left") : "-";
      known->second = left;
    } else {
      if (known->second && *known->second > 0) {
        when = absl::StrCat("in ", DurationText(*known->second));
      } else if (!known->second) {
        when = "after the jobs before it";
      }
      known->second = std::nullopt;  // how long it will take is not known
    }
    const std::string progress =
        sweep.id() == 0
            ? EscapeXml(FirstLine(job->message()))
            : EscapeXml(absl::StrCat(sweep.progress().done(), "/", sweep.progress().planned(),
                                     " trials, best ", BestText(sweep)));
    rows.push_back({JobLink(*job), KindText(*job), EscapeXml(job->subject()), StateHtml(*job),
                    EscapeXml(job->device_id()), EscapeXml(when), progress,
                    EscapeXml(job->owner())});
  }
  return TableHtml({"job", "kind", "subject", "state", "device", "when", "progress", "owner"}, rows,
                   "No job runs or waits. Start one with: tunectl sweep softmax");
}

std::string JobsTableHtml(const std::vector<v1::Job>& jobs) {
  RowsHtml rows;
  for (const v1::Job& job : jobs) {
    rows.push_back({JobLink(job), KindText(job), EscapeXml(job.subject()), StateHtml(job),
                    EscapeXml(job.device_id()), AgoHtml(job.created_unix_ms()),
                    EscapeXml(job.owner()), EscapeXml(FirstLine(job.message()))});
  }
  return TableHtml({"job", "kind", "subject", "state", "device", "asked", "owner", "message"}, rows,
                   "No jobs yet. Start one with: tunectl sweep softmax");
}

std::string SweepsTableHtml(const std::vector<v1::Job>& jobs) {
  RowsHtml rows;
  for (const v1::Job& job : jobs) {
    const v1::Sweep sweep = SweepOf(job);
    const std::string id = absl::StrCat(sweep.id());
    rows.push_back({sweep.id() == 0 ? JobLink(job) : LinkHtml("/sweeps/" + id, id),
                    EscapeXml(job.subject()), StateHtml(job), EscapeXml(sweep.device_id()),
                    absl::StrCat(sweep.progress().done(), "/", sweep.progress().planned()),
                    BestText(sweep),
                    sweep.result().speedup_over_default() > 0
                        ? fmt::format("{:.2f}x", sweep.result().speedup_over_default())
                        : "-",
                    AgoHtml(job.created_unix_ms())});
  }
  return TableHtml(
      {"sweep", "subject", "state", "device", "trials", "best", "over default", "asked"}, rows,
      "No sweeps yet. Start one with: tunectl sweep softmax");
}

std::string DevicesTableHtml(const std::vector<v1::Device>& devices) {
  RowsHtml rows;
  for (const v1::Device& device : devices) {
    const bool healthy = device.state() == v1::DEVICE_STATE_HEALTHY;
    rows.push_back({LinkHtml("/devices/" + EscapedForUrl(device.id()), device.id()),
                    EscapeXml(device.name()),
                    absl::StrCat("<span class=\"state ", healthy ? "done" : "failed", "\">",
                                 ToText(device.state()), "</span>"),
                    CeilingsHtml(device), EscapeXml(FirstLine(device.message()))});
  }
  return TableHtml({"device", "name", "health", "ceilings", "note"}, rows,
                   "This host has no device.");
}

std::string DeviceFactsHtml(const v1::Device& device) {
  const std::string note = device.clock_note().empty() ? "" : ": " + device.clock_note();
  std::vector<FactHtml> facts = {
      {"health", ToText(device.state())},
      {"note", EscapeXml(device.message())},
      {"target", EscapeXml(device.target())},
      {"driver", EscapeXml(device.driver())},
      {"memory",
       device.memory_bytes() > 0 ? BytesText(static_cast<double>(device.memory_bytes())) : ""},
      {"clock", EscapeXml(ToText(device.clock()) + note)}};
  for (const v1::DeviceCompiler& compiler : device.compilers()) {
    facts.push_back(
        {compiler.language(),
         EscapeXml(compiler.version().empty() ? compiler.message() : compiler.version())});
  }
  return FactsHtml(facts);
}

std::string CeilingsTableHtml(const v1::Device& device) {
  RowsHtml rows;
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    const bool interval = ceiling.low() > 0 && ceiling.high() > 0;
    rows.push_back({EscapeXml(ceiling.name()), CeilingText(ceiling, ceiling.value()),
                    interval ? absl::StrCat(CeilingText(ceiling, ceiling.low()), " to ",
                                            CeilingText(ceiling, ceiling.high()))
                             : "-",
                    ToText(ceiling.source()), AgoHtml(ceiling.measured_unix_ms()),
                    EscapeXml(ceiling.stale() ? absl::StrCat("stale: ", ceiling.stale_reason())
                                              : ceiling.note())});
  }
  return TableHtml({"ceiling", "value", "95 % interval", "source", "age", "note"}, rows,
                   "Not measured yet. Measure them with: tunectl device ceilings");
}

std::string ProgressHtml(const v1::Sweep& sweep) {
  const v1::SweepProgress& progress = sweep.progress();
  std::string rate;
  if (progress.trials_per_second() > 0) {
    rate = fmt::format("{:.1f} trials/s", progress.trials_per_second());
  }
  return absl::StrCat(
      "<progress max=\"", std::max<uint64_t>(progress.planned(), 1), "\" value=\"",
      std::min(progress.done(), std::max<uint64_t>(progress.planned(), 1)),
      "\" aria-label=\"trials done\"></progress>\n",
      FactsHtml(
          {{"trials", absl::StrCat(progress.done(), " of ", progress.planned(),
                                   progress.reused() > 0
                                       ? absl::StrCat(", ", progress.reused(), " measured earlier")
                                       : "")},
           {"best so far",
            BestOf(sweep) > 0
                ? EscapeXml(absl::StrCat(LatencyText(BestOf(sweep)), "  ",
                                         ToText(progress.best_config(), sweep.fixed_params())))
                : ""},
           {"rate", rate},
           {"outcomes", EscapeXml(CountsText(progress.outcomes()))},
           {"time", DurationText(progress.elapsed_seconds())},
           {"left", progress.remaining_seconds() > 0
                        ? absl::StrCat("about ", DurationText(progress.remaining_seconds()))
                        : ""},
           {"worker restarts",
            progress.worker_restarts() > 0 ? absl::StrCat(progress.worker_restarts()) : ""}}));
}

std::string WinnerHtml(const v1::Sweep& sweep) {
  if (!sweep.has_result()) return "";
  const v1::SweepResult& result = sweep.result();
  RowsHtml rows;
  const auto add = [&](const std::string& role, const v1::Trial& trial) {
    const v1::Measurement& measured = trial.measurement();
    const v1::Resources& resources = trial.resources();
    rows.push_back({role, absl::StrCat(trial.id()), LatencyText(measured.latency_ns_median()),
                    absl::StrCat(LatencyText(measured.latency_ns_low()), " to ",
                                 LatencyText(measured.latency_ns_high())),
                    absl::StrCat(resources.registers()),
                    BytesText(resources.static_shared_bytes() + resources.dynamic_shared_bytes()),
                    EscapeXml(ToText(trial.config(), sweep.fixed_params()))});
  };
  add("<b>best</b>", result.best());
  for (const v1::Trial& tie : result.ties()) {
    if (tie.id() != result.best().id()) add("tie", tie);
  }
  const bool is_default = result.default_standing() == v1::DEFAULT_STANDING_SAME;
  if (result.has_default_trial() && !is_default) add("default", result.default_trial());
  const std::string rounds =
      result.confirm_rounds() == 0
          ? "The search's own figures decided: nothing was measured again."
          : absl::StrCat("Best, ties and default were measured again in ",
                         Counted(result.confirm_rounds(), "round"), " of fresh processes.");
  return CardHtml(
      "Why this one",
      absl::StrCat(
          "<p>", rounds,
          " Of configs that cannot be told from the fastest, the best is the one with the "
          "fewest registers, then the least shared memory.",
          is_default ? " It is the default." : "", "</p>\n",
          TableHtml({"", "trial", "latency", "95 % interval", "registers", "shared", "config"},
                    rows, "")));
}

std::string JobFactsHtml(const v1::Job& job) {
  const bool started = job.started_unix_ms() != 0;
  return FactsHtml({{"state", StateHtml(job)},
                    {"message", EscapeXml(job.message())},
                    {"device", EscapeXml(job.device_id())},
                    {"owner", EscapeXml(job.owner())},
                    {"priority", EscapeXml(ToText(job.priority()))},
                    {"asked", AgoHtml(job.created_unix_ms())},
                    {"started", started ? AgoHtml(job.started_unix_ms()) : ""},
                    {"ended", IsUnfinished(job) ? "" : AgoHtml(job.finished_unix_ms())}});
}

}  // namespace tune::client
