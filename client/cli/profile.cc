// SPDX-License-Identifier: Apache-2.0
// tunectl profile KERNEL
#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/call.h"
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/job_follow.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/cli/kernel_help.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/profile.grpc.pb.h"

namespace tune::client {
namespace {

struct ProfileFlags {
  std::string kernel;
  std::string kernel_path;
  std::string dtype;
  std::string device;
  std::vector<std::string> configs;
  std::vector<int64_t> trials;
  bool best = false;
  uint32_t top = 0;
  std::string set = "default";
  bool warm = false;
  uint64_t seed = 0;
  bool detach = false;
  bool json = false;
};

v1::Value ParseValue(const std::string& text) {
  v1::Value value;
  int64_t integer = 0;
  double real = 0;
  if (absl::SimpleAtoi(text, &integer)) {
    value.set_integer(integer);
  } else if (absl::SimpleAtod(text, &real)) {
    value.set_real(real);
  } else if (text == "true" || text == "false") {
    value.set_boolean(text == "true");
  } else {
    value.set_text(text);
  }
  return value;
}

// "BLOCK=64,STAGES=2" or "BLOCK=64 STAGES=2", as `trial list` prints configs.
absl::Status ParseConfig(const std::string& text, v1::Config& config) {
  for (const absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (entry.first.empty() || entry.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--config takes PARAM=VALUE,..., not '", text, "'"));
    }
    v1::ConfigEntry* added = config.add_entries();
    added->set_param(entry.first);
    *added->mutable_value() = ParseValue(entry.second);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::SubmitProfileRequest> MakeRequest(const ProfileFlags& flags, Session& session) {
  v1::SubmitProfileRequest request;
  if (flags.kernel_path.empty()) {
    request.set_kernel_name(flags.kernel);
  } else {
    auto files = ReadKernelFiles(flags.kernel_path);
    if (!files.ok()) return files.status();
    *request.mutable_kernel_source() = std::move(files->source);
  }
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  for (const std::string& text : flags.configs) {
    absl::Status parsed = ParseConfig(text, *request.add_configs());
    if (!parsed.ok()) return parsed;
  }
  request.mutable_trial_ids()->Add(flags.trials.begin(), flags.trials.end());
  request.set_best(flags.best);
  request.set_top(flags.top);
  request.set_dtype(flags.dtype);
  request.set_device(flags.device);
  request.set_seed(flags.seed);
  request.set_cache_mode(flags.warm ? v1::CACHE_MODE_WARM : v1::CACHE_MODE_COLD);
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

void Print(const v1::Profile& profile) {
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
  if (flags.kernel.empty() == flags.kernel_path.empty()) {
    return absl::InvalidArgumentError("give a kernel's name, or --kernel with the path of a spec");
  }
  auto request = MakeRequest(flags, session);
  if (!request.ok()) return request.status();
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  if (flags.detach) RETURN_IF_ERROR(CheckDetach(**connection));
  ASSIGN_OR_RETURN(const v1::Job job,
                   Call(connection, &v1::ProfileService::Stub::SubmitProfile, *request));
  if (flags.detach) return PrintDetached(job, flags.json);
  std::vector<v1::Profile> profiles;
  const auto use = [&](const v1::Profile& profile) {
    if (flags.json) {
      profiles.push_back(profile);
    } else {
      Print(profile);
    }
  };
  const absl::Status done = AwaitJob(**connection, job, [&](const v1::JobEvent& event) {
    ForEachResult<v1::Profile>(event, use);
  });
  if (done.ok() && flags.json) PrintJsonList("profiles", profiles);
  return done;
}

}  // namespace

void AddProfile(CLI::App& app, Session& session) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* profile = app.add_subcommand(
      "profile",
      "What the hardware counters say of a config, next to its time.\nExamples:\n"
      "  tunectl profile softmax --rows 8192 --cols 4096 --best\n"
      "  tunectl profile softmax --top 3 --set all\n"
      "  tunectl profile softmax --config THREADS=256 --json");
  const auto help = std::make_shared<KernelHelp>(*profile);
  profile->add_option("KERNEL", flags->kernel, kKernelHelp);
  profile->add_option("--kernel", flags->kernel_path, kKernelFlagHelp);
  profile->add_option("--dtype", flags->dtype, "Data type; by default the spec's first");
  profile->add_option("--device", flags->device,
                      "Device id; by default the first GPU, else the CPU");
  profile->add_option("--config", flags->configs,
                      "PARAM=VALUE,...; params not given take their defaults; again for more");
  profile->add_option("--trial", flags->trials, "The config of a trial; again for more");
  profile->add_flag("--best", flags->best, "The config of the current record");
  profile->add_option("--top", flags->top, "So many of the fastest configs tried")
      ->check(CLI::Range(1, 32));
  profile
      ->add_option("--set", flags->set,
                   "default: bytes and FLOPs; flops; tensor: also tensor operations by type; all: "
                   "also occupancy, stalls and hit rates")
      ->check(CLI::IsMember({"default", "flops", "tensor", "all"}));
  profile->add_flag("--warm", flags->warm, "With the cache as the launch before left it");
  profile->add_option("--seed", flags->seed, "Of the inputs")->check(RefuseMinus);
  profile->add_flag("--detach", flags->detach, kDetachHelp);
  profile->add_flag("--json", flags->json, "As JSON");
  profile->callback([&session, flags, help] {
    SortKernel(flags->kernel, flags->kernel_path);
    const std::string& kernel = flags->kernel.empty() ? flags->kernel_path : flags->kernel;
    session.Finish(help->asked() ? help->Print(session, kernel) : Run(session, *flags));
  });
}

}  // namespace tune::client
