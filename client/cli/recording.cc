// SPDX-License-Identifier: Apache-2.0
// tunectl recording show|convert|from-sweep|spec
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/recording_files.h"
#include "client/cli/work_id.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/replay.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {
namespace {

struct RecordingFlags {
  std::string path;
  std::string definition;
  std::string out;
  std::string format = "neutral";
  int64_t sweep_id = 0;
  bool force = false;
};

std::string InfoText(const v1::RecordingInfo& info) {
  std::string text = fmt::format("{}  on {}\n\n", Bold(info.name()), info.device());
  const auto add = [&](const std::string& title, const std::string& value) {
    AddLine(text, title, value, 12);
  };
  add("kernel", info.kernel());
  add("problem", info.problem());
  add("source", info.source());
  add("configs", fmt::format("{}{}: {}", info.configs(), info.sampled() ? " (perhaps not all)" : "",
                             CountsText(info.outcomes())));
  if (info.has_best_config()) {
    add("best",
        fmt::format("{}  {}", LatencyText(info.best_latency_ns()), ToText(info.best_config())));
    add("over it", fmt::format("median {:.2f}, worst {:.1f}; {} configs within 5 %",
                               info.median_ratio(), info.worst_ratio(), info.within_5_percent()));
  }
  if (info.seconds() > 0) add("took", DurationText(info.seconds()));
  for (int i = 0; i < info.params_size(); ++i) {
    const v1::RecordedParam& param = info.params(i);
    std::vector<std::string> values;
    for (const v1::Value& value : param.values()) values.push_back(ToText(value));
    add(i == 0 ? "params" : "", absl::StrCat(param.name(), ": ", absl::StrJoin(values, " ")));
  }
  for (int i = 0; i < info.constraints_size(); ++i) {
    add(i == 0 ? "constraints" : "", info.constraints(i));
  }
  return text;
}

absl::Status Show(Session& session, const RecordingFlags& flags) {
  v1::DescribeRecordingRequest request;
  ASSIGN_OR_RETURN(*request.mutable_recording(), ReadRecordingFiles(flags.path, flags.definition));
  ASSIGN_OR_RETURN(
      const v1::RecordingInfo info,
      Call(session.Replay(), &v1::ReplayService::Stub::DescribeRecording, request, kNoTimeout));
  return Print(session, info,
               [](const v1::RecordingInfo& shown) { std::fputs(InfoText(shown).c_str(), stdout); });
}

absl::StatusOr<v1::ConvertRecordingResponse> Convert(Session& session, v1::RecordingSource source,
                                                     const std::string& format,
                                                     const std::string& stem) {
  v1::ConvertRecordingRequest request;
  *request.mutable_recording() = std::move(source);
  request.set_format(format);
  request.set_stem(stem);
  return Call(session.Replay(), &v1::ReplayService::Stub::ConvertRecording, request, kNoTimeout);
}

absl::Status Write(Session& session, v1::RecordingSource source, const RecordingFlags& flags) {
  const std::filesystem::path out(RecordingStem(flags.out));
  ASSIGN_OR_RETURN(auto converted,
                   Convert(session, std::move(source), flags.format, out.filename().string()));
  const std::vector<v1::RecordingFile> files(converted.files().begin(), converted.files().end());
  RETURN_IF_ERROR(WriteFiles(out.parent_path().string(), files,
                             flags.force ? Overwrite::kAllow : Overwrite::kRefuse));
  for (const v1::RecordingFile& file : files) {
    std::printf("%s\n", (out.parent_path() / file.name()).string().c_str());
  }
  const v1::RecordingInfo& info = converted.info();
  std::fprintf(stderr, "%lu configs of %s; play it with: tunectl sweep --replay %s\n",
               static_cast<unsigned long>(info.configs()), info.device().c_str(),
               (out.parent_path() / files[0].name()).string().c_str());
  return absl::OkStatus();
}

absl::Status ConvertFile(Session& session, const RecordingFlags& flags) {
  ASSIGN_OR_RETURN(auto source, ReadRecordingFiles(flags.path, flags.definition));
  return Write(session, std::move(source), flags);
}

absl::Status FromSweep(Session& session, const RecordingFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  v1::RecordingSource source;
  ASSIGN_OR_RETURN(*source.mutable_sweep(), GetSweep(*connection, flags.sweep_id));
  v1::ListTrialsRequest request;
  request.set_sweep_id(flags.sweep_id);
  request.set_with_reused(true);
  RETURN_IF_ERROR(CallStream(connection, &v1::SweepService::Stub::ListTrials, request,
                             [&](v1::Trial& trial) { *source.add_trials() = std::move(trial); }));
  return Write(session, std::move(source), flags);
}

absl::Status Spec(Session& session, const RecordingFlags& flags) {
  ASSIGN_OR_RETURN(auto source, ReadRecordingFiles(flags.path, flags.definition));
  ASSIGN_OR_RETURN(auto converted, Convert(session, std::move(source), "spec", "kernel"));
  std::fputs(converted.files(0).content().c_str(), stdout);
  return absl::OkStatus();
}

std::vector<Flag> SourceFlags(RecordingFlags& flags) {
  return {
      Flag("FILE", &flags.path, "Recording: the neutral form, a Kernel Tuner cache or T4 results")
          .Required(),
      Flag("--definition", &flags.definition,
           "T1 file with the params of a cache or of T4 results")};
}

std::vector<Flag> OutFlags(RecordingFlags& flags) {
  return {Flag("OUT", &flags.out, "Start of the names of the files to write").Required(),
          Flag("--format", &flags.format, "Format: neutral, kernel-tuner or t4"),
          Flag("--force", &flags.force, "Replace existing files")};
}

}  // namespace

Command RecordingCommand(Session& session) {
  const auto flags = std::make_shared<RecordingFlags>();
  return {
      .name = "recording",
      .help = "Recorded spaces: measurements of this tuner and of others, as files",
      .examples = {"tunectl recording show cache.json",
                   "tunectl recording convert cache.json mine --format neutral",
                   "tunectl recording from-sweep 12 softmax-h200",
                   "tunectl sweep --replay softmax-h200.json --strategy random --budget 50"},
      .verbs = {
          {.name = "show",
           .help = "Describe a recording",
           .json = kJsonHelp,
           .flags = SourceFlags(*flags),
           .run = [&session, flags] { return Show(session, *flags); }},
          {.name = "convert",
           .help = "Write a recording in another format",
           .flags = Joined(SourceFlags(*flags), OutFlags(*flags)),
           .run = [&session, flags] { return ConvertFile(session, *flags); }},
          {.name = "from-sweep",
           .help = "Write the measurements of a sweep as a recording",
           .flags = Joined(
               {Flag("ID", &flags->sweep_id, "Sweep id, as in 'tunectl sweep list'").Required()},
               OutFlags(*flags)),
           .run = [&session, flags] { return FromSweep(session, *flags); }},
          {.name = "spec",
           .help = "Print a kernel spec to start from: its params and constraints",
           .flags = SourceFlags(*flags),
           .run = [&session, flags] { return Spec(session, *flags); }}}};
}

}  // namespace tune::client
