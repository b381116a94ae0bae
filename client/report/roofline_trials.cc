// SPDX-License-Identifier: Apache-2.0
#include "client/report/roofline_trials.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/format.h"
#include "client/report/html_text.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_chart.h"
#include "nlohmann/json.hpp"

namespace tune::client {
namespace {

constexpr size_t kMessageBytesMax = 400;  // of a trial; the database has the whole log
constexpr size_t kHashShown = 16;

std::string CutMessage(const std::string& message) {
  if (message.size() <= kMessageBytesMax) return message;
  size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  return message.substr(0, end) + "...";
}

bool IsTimed(const v1::Trial& trial) { return trial.measurement().latency_ns_median() > 0; }

std::string ThrottleText(uint64_t reasons) {
  return reasons == 0 ? "none" : fmt::format("reasons {:#x}", reasons);
}

// A list of names and values; empty values are left out.
class Facts {
 public:
  void Add(const char* name, const std::string& value) {
    if (value.empty()) return;
    absl::StrAppend(&html_, "<dt>", name, "</dt><dd>", EscapeXml(value), "</dd>");
  }
  std::string Html() const { return absl::StrCat("<dl>", html_, "</dl>"); }

 private:
  std::string html_;
};

void AddTimes(const v1::Sweep& sweep, const v1::Trial& trial, Facts& facts) {
  const v1::Measurement& m = trial.measurement();
  facts.Add("median", fmt::format("{} ({})", LatencyText(m.latency_ns_median()),
                                  LatencyIntervalText(m, RoundsOf(sweep, trial))));
  facts.Add("fastest, mean",
            absl::StrCat(LatencyText(m.latency_ns_min()), ", ", LatencyText(m.latency_ns_mean())));
  facts.Add("samples",
            absl::StrCat(m.sample_count(), m.stopped_early() ? ", cut short as hopeless" : ""));
  facts.Add("clock, cache", absl::StrCat(ToText(m.clock()), ", ",
                                         m.cache_mode() == v1::CACHE_MODE_WARM ? "warm" : "cold"));
  facts.Add("rates", absl::StrCat(BandwidthText(m.bytes_per_second()), ", ",
                                  FlopRateText(m.flops_per_second())));
}

void AddResources(const v1::Trial& trial, Facts& facts) {
  const v1::Resources& r = trial.resources();
  facts.Add("registers",
            absl::StrCat(r.registers(), " per thread, ", r.spill_bytes(), " bytes spilled"));
  facts.Add("shared memory", absl::StrCat(BytesText(r.static_shared_bytes()), " static, ",
                                          BytesText(r.dynamic_shared_bytes()), " dynamic"));
  if (!r.binary_sha256().empty()) {
    facts.Add("machine code", absl::StrCat(r.binary_sha256().substr(0, kHashShown), "..., ",
                                           BytesText(r.binary_bytes())));
  }
  const v1::Telemetry& t = trial.telemetry();
  if (t.sm_clock_mhz() > 0) {
    facts.Add("clocks",
              absl::StrCat(t.sm_clock_mhz(), " MHz, memory ", t.memory_clock_mhz(), " MHz"));
    facts.Add("power, temperature",
              fmt::format("{:.0f} W, {} C", t.power_mw() / 1000.0, t.temperature_c()));
    facts.Add("throttling", ThrottleText(t.throttle_reasons()));
  }
}

// Everything that is known of a trial.
std::string Evidence(const v1::Roofline& roofline, const v1::RooflinePoint& point) {
  const v1::Trial& trial = point.trial();
  Facts facts;
  facts.Add("diagnosis", point.diagnosis());
  facts.Add("notes", absl::StrJoin(point.notes(), "; "));
  facts.Add("config", ToText(trial.config()));
  facts.Add("outcome", ToText(trial.outcome()));
  facts.Add("message", CutMessage(trial.message()));
  if (IsTimed(trial)) AddTimes(roofline.sweep(), trial, facts);
  if (trial.error().relative_l2() > 0) {
    facts.Add("relative error",
              fmt::format("{:.2e}, worst {}", trial.error().relative_l2(), trial.error().worst()));
  }
  AddResources(trial, facts);
  facts.Add("compiled in", fmt::format("{:.2f} s{}", trial.compile_seconds(),
                                       trial.compile_cached() ? ", from the cache" : ""));
  facts.Add("driver, compiler", absl::StrCat(roofline.driver(), ", ", roofline.compiler()));
  const v1::Sweep& sweep = roofline.sweep();
  facts.Add("kernel",
            absl::StrCat(sweep.kernel_name(), " ", sweep.kernel_hash().substr(0, kHashShown)));
  if (trial.finished_unix_ms() > 0) facts.Add("finished", TimeText(trial.finished_unix_ms()));
  facts.Add("sweep", absl::StrCat(trial.sweep_id(),
                                  trial.sweep_id() != sweep.id() ? " (an earlier one)" : ""));
  if (point.profile_id() != 0) facts.Add("profile", absl::StrCat(point.profile_id()));
  const std::string uses = point.uses().empty() ? "" : HtmlOfMarkdown(MarkdownUses(point), {});
  return absl::StrCat(facts.Html(), uses);
}

std::string MarkOf(const v1::Roofline& roofline, int64_t id) {
  if (id == roofline.best_trial_id()) return "best";
  if (id == roofline.default_trial_id()) return "default";
  for (const int64_t tie : roofline.tie_trial_ids()) {
    if (tie == id) return "tie";
  }
  return "";
}

// The params that have several values here.
std::vector<std::string> VariedParams(const v1::Roofline& roofline) {
  std::vector<std::string> names;
  std::map<std::string, std::set<std::string>> values;
  for (const v1::RooflinePoint& point : roofline.points()) {
    for (const v1::ConfigEntry& entry : point.trial().config().entries()) {
      std::set<std::string>& known = values[entry.param()];
      if (known.insert(ToText(entry.value())).second && known.size() == 2) {
        names.push_back(entry.param());
      }
    }
  }
  return names;
}

std::string HtmlCell(const std::string& text, double sort) {
  return fmt::format("<td class=\"n\" data-sort=\"{:.9g}\">{}</td>", sort, EscapeXml(text));
}
std::string HtmlCell(const std::string& text) {
  return absl::StrCat("<td>", EscapeXml(text), "</td>");
}

std::string TrialRow(const v1::Roofline& roofline, const v1::RooflinePoint& point,
                     const std::vector<std::string>& params) {
  const v1::Trial& trial = point.trial();
  const v1::Measurement& m = trial.measurement();
  std::map<std::string, std::string> values;
  for (const v1::ConfigEntry& entry : trial.config().entries()) {
    values[entry.param()] = ToText(entry.value());
  }
  nlohmann::json config = nlohmann::json::array();
  std::string cells;
  for (const std::string& param : params) {
    config.push_back(absl::StrCat(param, "=", values[param]));
    absl::StrAppend(&cells, HtmlCell(values[param]));
  }
  const std::string list = config.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  const bool timed = IsTimed(trial);
  const std::string mark = MarkOf(roofline, trial.id());
  return absl::StrCat(
      "<tr data-trial=\"", trial.id(), "\" data-config=\"", EscapeXml(list), "\"><td data-sort=\"",
      trial.id(), "\"><details><summary>", trial.id(), "</summary>", Evidence(roofline, point),
      "</details></td><td class=\"", mark, "\">", mark, "</td>",
      HtmlCell(timed ? LatencyText(m.latency_ns_median()) : "-",
               timed ? m.latency_ns_median() : 1e300),
      HtmlCell(timed ? absl::StrCat(LatencyText(m.latency_ns_low()), " to ",
                                    LatencyText(m.latency_ns_high()))
                     : "-",
               timed ? m.latency_ns_low() : 1e300),
      HtmlCell(point.efficiency() > 0 ? PercentText(point.efficiency()) : "-", point.efficiency()),
      HtmlCell(timed ? ToText(point.verdict()) : ToText(trial.outcome())),
      HtmlCell(absl::StrCat(trial.resources().registers()), trial.resources().registers()),
      HtmlCell(absl::StrCat(trial.resources().spill_bytes()), trial.resources().spill_bytes()),
      cells, "</tr>\n");
}

}  // namespace

std::string TrialsTable(const v1::Roofline& roofline) {
  const std::vector<std::string> params = VariedParams(roofline);
  std::string html =
      "<h2>Trials</h2>\n<p class=\"note\">Click a title to sort, a trial's number for the evidence "
      "behind it.</p>\n<div class=\"filters\"></div>\n"
      "<div class=\"scroll tall\"><table class=\"trials\">\n<tr>";
  std::vector<std::string> titles = {"trial",   "",        "median",    "interval",
                                     "of roof", "verdict", "registers", "spills"};
  titles.insert(titles.end(), params.begin(), params.end());
  for (const std::string& title : titles) {
    absl::StrAppend(&html, "<th scope=\"col\">", EscapeXml(title), "</th>");
  }
  absl::StrAppend(&html, "</tr>\n");
  for (const v1::RooflinePoint& point : roofline.points()) {
    absl::StrAppend(&html, TrialRow(roofline, point, params));
  }
  return absl::StrCat(html, "</table></div>\n");
}

}  // namespace tune::client
