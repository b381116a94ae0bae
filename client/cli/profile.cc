// SPDX-License-Identifier: Apache-2.0
// tunectl profile KERNEL
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/command.h"
#include "client/cli/config_flag.h"
#include "client/cli/job_follow.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::client {
namespace {

struct ProfileFlags {
  ProblemFlags problem{.seed = 0};
  std::vector<std::string> configs;
  std::vector<int64_t> trials;
  bool best = false;
  uint32_t top = 0;
  std::string set = "default";
  bool detach = false;
};

absl::StatusOr<v1::SubmitProfileRequest> MakeRequest(const ProfileFlags& flags,
                                                     const Session& session) {
  v1::SubmitProfileRequest request;
  ASSIGN_OR_RETURN(const std::string kernel, OneKernel(flags.problem.kernel));
  RETURN_IF_ERROR(SetKernel(kernel, request).status());
  RETURN_IF_ERROR(SetMeasured(session, flags.problem, request));
  for (const std::string& text : flags.configs) {
    ASSIGN_OR_RETURN(*request.add_configs(), ParseConfig(text));
  }
  request.mutable_trial_ids()->Add(flags.trials.begin(), flags.trials.end());
  request.set_best(flags.best);
  request.set_top(flags.top);
  request.set_set(flags.set == "flops"    ? v1::METRIC_SET_FLOPS
                  : flags.set == "tensor" ? v1::METRIC_SET_TENSOR
                  : flags.set == "all"    ? v1::METRIC_SET_ALL
                                          : v1::METRIC_SET_DEFAULT);
  return request;
}

void Line(const char* title, const std::string& text) {
  std::printf("  %-14s%s\n", title, text.c_str());
}

// "1.07 GB   3.9 TB/s".
std::string Moved(double bytes, double latency_ns) {
  std::string text = BytesText(bytes);
  if (latency_ns > 0) absl::StrAppend(&text, "   ", BandwidthText(bytes / latency_ns * 1e9));
  return text;
}

void PrintTraffic(const v1::Profile& profile) {
  const double ns = profile.measurement().latency_ns_median();
  if (profile.has_dram_read_bytes()) Line("DRAM read", Moved(profile.dram_read_bytes(), ns));
  if (profile.has_dram_write_bytes()) Line("DRAM write", Moved(profile.dram_write_bytes(), ns));
  if (profile.has_l2_bytes()) Line("L2", Moved(profile.l2_bytes(), ns));
  if (profile.has_l1_bytes()) Line("L1", Moved(profile.l1_bytes(), ns));
  if (profile.has_shared_bytes()) Line("shared", Moved(profile.shared_bytes(), ns));
  if (profile.has_reread_factor()) {
    Line("re-read", fmt::format("{:.3f} of the declared bytes moved", profile.reread_factor()));
  }
  for (const auto& [name, flops] : profile.flops()) {
    if (flops <= 0) continue;
    std::string text = fmt::format("{:.4g} FLOP", flops);
    if (ns > 0) absl::StrAppend(&text, "   ", FlopRateText(flops / ns * 1e9));
    Line(name.c_str(), text);
  }
  if (profile.has_dram_intensity()) {
    Line("FLOP/byte", fmt::format("{:.3g} DRAM   {:.3g} L2   {:.3g} L1", profile.dram_intensity(),
                                  profile.l2_intensity(), profile.l1_intensity()));
  }
}

void PrintStalls(const v1::Profile& profile) {
  if (profile.has_occupancy()) Line("occupancy", PercentText(profile.occupancy()));
  if (profile.has_issue_active()) Line("issuing", PercentText(profile.issue_active()));
  if (profile.has_l2_hit_rate()) Line("L2 hits", PercentText(profile.l2_hit_rate()));
  std::vector<std::string> stalls;
  for (const v1::Stall& stall : profile.stalls()) {
    if (stalls.size() == 4) break;
    stalls.push_back(absl::StrCat(stall.reason(), " ", PercentText(stall.share())));
  }
  if (!stalls.empty()) Line("stalls", absl::StrJoin(stalls, ", "));
}

void PrintProfile(const v1::Profile& profile) {
  std::printf("%s\n", Bold(ToText(profile.config())).c_str());
  if (profile.outcome() != v1::OUTCOME_OK) Line("outcome", ToText(profile.outcome()));
  if (!profile.message().empty()) Line("note", profile.message());
  if (profile.has_measurement()) {
    const std::string from = profile.trial_id() > 0 ? absl::StrCat("of trial ", profile.trial_id())
                                                    : "timed for this profile";
    Line("time", absl::StrCat(LatencyText(profile.measurement().latency_ns_median()), "   ", from));
  }
  Line("declared", Moved(profile.declared_bytes(), profile.measurement().latency_ns_median()));
  if (profile.declared_flops() > 0) {
    Line("", fmt::format("{:.4g} FLOP ({})", profile.declared_flops(), profile.peak()));
  }
  PrintTraffic(profile);
  PrintStalls(profile);
  for (const std::string& note : profile.notes()) Line("note", note);
  if (profile.counted()) {
    Line("evidence",
         absl::StrCat("profile ", profile.id(), ", chip ", profile.chip(), ", ",
                      profile.pass_count(), " passes, ", profile.reading_count(), " readings"));
  }
}

absl::Status Run(Session& session, const ProfileFlags& flags) {
  ASSIGN_OR_RETURN(const v1::SubmitProfileRequest request, MakeRequest(flags, session));
  std::vector<v1::Profile> profiles;
  RETURN_IF_ERROR(RunJob<v1::Profile>(session, flags.detach,
                                      &v1::ProfileService::Stub::SubmitProfile, request,
                                      [&](const v1::Profile& profile) {
                                        profiles.push_back(profile);
                                        if (!session.json) PrintProfile(profile);
                                      }));
  if (session.json && !flags.detach) return PrintJsonList("profiles", profiles);
  return absl::OkStatus();
}

}  // namespace

Command ProfileCommand(Session& session) {
  auto flags = std::make_shared<ProfileFlags>();
  return {.name = "profile",
          .help = "Read the hardware counters of a config, next to its time",
          .examples = {"tunectl profile softmax --rows 8192 --cols 4096 --best",
                       "tunectl profile softmax --top 3 --set all",
                       "tunectl profile softmax --config THREADS=256 --json"},
          .kernel = &flags->problem.kernel,
          .dims = true,
          .json = kJsonHelp,
          .flags = Joined(
              {Flag("--config", &flags->configs, kConfigHelp),
               Flag("--trial", &flags->trials,
                    "Trial whose config is profiled; may be given several times"),
               Flag("--best", &flags->best, "Profile the config of the current record"),
               Flag("--top", &flags->top, "Number of the fastest tried configs to profile")
                   .Range(1, 32),
               Flag("--set", &flags->set,
                    "default: bytes and FLOPs; flops; tensor: also tensor operations by type; all: "
                    "also occupancy, stalls and hit rates")
                   .OneOf({"default", "flops", "tensor", "all"}),
               Flag("--detach", &flags->detach, kDetachHelp)},
              MeasuredFlags(flags->problem)),
          .run = [&session, flags] { return Run(session, *flags); }};
}

}  // namespace tune::client
