// SPDX-License-Identifier: Apache-2.0
// tunectl recording show|convert|from-sweep|spec
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/recording_files.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr char kFormats[] = "neutral, kernel-tuner or t4";
constexpr char kExamples[] =
    "Examples:\n"
    "  tunectl recording show cache.json\n"
    "  tunectl recording convert cache.json mine --format neutral\n"
    "  tunectl recording from-sweep 12 softmax-h200\n"
    "  tunectl sweep --replay softmax-h200.json --strategy random --budget 50\n";

struct RecordingFlags {
  std::string path;
  std::string definition;
  std::string out;
  std::string format = "neutral";
  int64_t sweep_id = 0;
  bool force = false;
  bool json = false;
};

void AddLine(std::string& text, const std::string& title, const std::string& value) {
  if (!value.empty()) absl::StrAppend(&text, Dim(fmt::format("{:<12}", title)), value, "\n");
}

std::string InfoText(const v1::RecordingInfo& info) {
  std::string text = fmt::format("{}  on {}\n\n", Bold(info.name()), info.device());
  AddLine(text, "kernel", info.kernel());
  AddLine(text, "problem", info.problem());
  AddLine(text, "source", info.source());
  std::vector<std::string> outcomes;
  for (const auto& [outcome, count] : info.outcomes()) {
    outcomes.push_back(absl::StrCat(count, " ", outcome));
  }
  AddLine(text, "configs",
          fmt::format("{}{}: {}", info.configs(), info.sampled() ? " (perhaps not all)" : "",
                      absl::StrJoin(outcomes, ", ")));
  if (info.has_best_config()) {
    AddLine(text, "best",
            fmt::format("{}  {}", LatencyText(info.best_latency_ns()), ToText(info.best_config())));
    AddLine(text, "over it",
            fmt::format("median {:.2f}, worst {:.1f}; {} configs within 5 %", info.median_ratio(),
                        info.worst_ratio(), info.within_5_percent()));
  }
  if (info.seconds() > 0) AddLine(text, "took", DurationText(info.seconds()));
  for (int i = 0; i < info.params_size(); ++i) {
    const v1::RecordedParam& param = info.params(i);
    std::vector<std::string> values;
    for (const v1::Value& value : param.values()) values.push_back(ToText(value));
    AddLine(text, i == 0 ? "params" : "",
            absl::StrCat(param.name(), ": ", absl::StrJoin(values, " ")));
  }
  for (int i = 0; i < info.constraints_size(); ++i) {
    AddLine(text, i == 0 ? "constraints" : "", info.constraints(i));
  }
  return text;
}

absl::Status Show(Session& session, const RecordingFlags& flags) {
  v1::DescribeRecordingRequest request;
  auto source = ReadRecordingFiles(flags.path, flags.definition);
  if (!source.ok()) return source.status();
  *request.mutable_recording() = *std::move(source);
  auto replay = session.Replay();
  if (!replay.ok()) return replay.status();
  grpc::ClientContext context;
  v1::RecordingInfo info;
  absl::Status status = FromGrpc((*replay)->DescribeRecording(&context, request, &info));
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(info);
  } else {
    std::fputs(InfoText(info).c_str(), stdout);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ConvertRecordingResponse> Convert(Session& session, v1::RecordingSource source,
                                                     const std::string& format,
                                                     const std::string& stem) {
  v1::ConvertRecordingRequest request;
  *request.mutable_recording() = std::move(source);
  request.set_format(format);
  request.set_stem(stem);
  auto replay = session.Replay();
  if (!replay.ok()) return replay.status();
  grpc::ClientContext context;
  v1::ConvertRecordingResponse response;
  absl::Status status = FromGrpc((*replay)->ConvertRecording(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::Status Write(Session& session, v1::RecordingSource source, const RecordingFlags& flags) {
  const std::filesystem::path out(RecordingStem(flags.out));
  auto converted = Convert(session, std::move(source), flags.format, out.filename().string());
  if (!converted.ok()) return converted.status();
  const std::vector<v1::RecordingFile> files(converted->files().begin(), converted->files().end());
  absl::Status status = WriteFiles(out.parent_path().string(), files,
                                   flags.force ? Overwrite::kAllow : Overwrite::kRefuse);
  if (!status.ok()) return status;
  for (const v1::RecordingFile& file : files) {
    std::printf("%s\n", (out.parent_path() / file.name()).string().c_str());
  }
  const v1::RecordingInfo& info = converted->info();
  std::fprintf(stderr, "%lu configs of %s; play it with: tunectl sweep --replay %s\n",
               static_cast<unsigned long>(info.configs()), info.device().c_str(),
               (out.parent_path() / files[0].name()).string().c_str());
  return absl::OkStatus();
}

absl::Status ConvertFile(Session& session, const RecordingFlags& flags) {
  auto source = ReadRecordingFiles(flags.path, flags.definition);
  if (!source.ok()) return source.status();
  return Write(session, *std::move(source), flags);
}

absl::Status FromSweep(Session& session, const RecordingFlags& flags) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  v1::RecordingSource source;
  {
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    v1::GetSweepRequest request;
    request.set_sweep_id(flags.sweep_id);
    absl::Status status =
        FromGrpc((*connection)->sweeps().GetSweep(&context, request, source.mutable_sweep()));
    if (!status.ok()) return status;
  }
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ListTrialsRequest request;
  request.set_sweep_id(flags.sweep_id);
  request.set_with_reused(true);
  auto reader = (*connection)->sweeps().ListTrials(&context, request);
  v1::Trial trial;
  while (reader->Read(&trial)) *source.add_trials() = trial;
  absl::Status status = FromGrpc(reader->Finish());
  if (!status.ok()) return status;
  return Write(session, std::move(source), flags);
}

absl::Status Spec(Session& session, const RecordingFlags& flags) {
  auto source = ReadRecordingFiles(flags.path, flags.definition);
  if (!source.ok()) return source.status();
  auto converted = Convert(session, *std::move(source), "spec", "kernel");
  if (!converted.ok()) return converted.status();
  std::fputs(converted->files(0).content().c_str(), stdout);
  return absl::OkStatus();
}

using Command = absl::Status (*)(Session&, const RecordingFlags&);

CLI::App* AddVerb(CLI::App& recording, Session& session, const std::string& name,
                  const std::string& help, Command run,
                  const std::shared_ptr<RecordingFlags>& flags) {
  CLI::App* verb = recording.add_subcommand(name, help);
  verb->callback([&session, run, flags] { session.Finish(run(session, *flags)); });
  return verb;
}

void AddSourceFlags(CLI::App& verb, RecordingFlags& flags) {
  verb.add_option("FILE", flags.path,
                  "Recording: the neutral form, a Kernel Tuner cache or T4 results")
      ->required();
  verb.add_option("--definition", flags.definition,
                  "T1 file with the params of a cache or of T4 results");
}

void AddOutFlags(CLI::App& verb, RecordingFlags& flags) {
  verb.add_option("OUT", flags.out, "Where to: the start of the files' names")->required();
  verb.add_option("--format", flags.format, kFormats)->capture_default_str();
  verb.add_flag("--force", flags.force, "Write over what is there");
}

}  // namespace

void AddRecording(CLI::App& app, Session& session) {
  CLI::App* recording = app.add_subcommand(
      "recording", std::string("Recorded spaces: bring and take measurements.\n") + kExamples);
  recording->require_subcommand(1);
  auto flags = std::make_shared<RecordingFlags>();
  CLI::App* show = AddVerb(*recording, session, "show", "What is in a recording", Show, flags);
  AddSourceFlags(*show, *flags);
  show->add_flag("--json", flags->json, "As JSON");
  CLI::App* convert = AddVerb(*recording, session, "convert", "Write a recording in another format",
                              ConvertFile, flags);
  AddSourceFlags(*convert, *flags);
  AddOutFlags(*convert, *flags);
  CLI::App* from_sweep = AddVerb(*recording, session, "from-sweep",
                                 "Write what a sweep of ours measured", FromSweep, flags);
  from_sweep->add_option("ID", flags->sweep_id, "Sweep id, as in 'tunectl sweep list'")->required();
  AddOutFlags(*from_sweep, *flags);
  CLI::App* spec =
      AddVerb(*recording, session, "spec",
              "Print a kernel spec to start from: its params and constraints", Spec, flags);
  AddSourceFlags(*spec, *flags);
}

}  // namespace tune::client
