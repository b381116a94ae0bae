// SPDX-License-Identifier: Apache-2.0
// tunectl snapshot list|show|diff|pin|unpin|export|import|prune
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/dim_flags.h"
#include "client/cli/user_file.h"
#include "client/connect/rpc.h"
#include "client/export/export_format.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/record.grpc.pb.h"
#include "tune/v1/snapshot.grpc.pb.h"
#include "tune/v1/snapshot.pb.h"

namespace tune::client {
namespace {

constexpr size_t kSnapshotPieceBytes = size_t{2} << 20;
constexpr char kSnapshotHelp[] =
    "sha256:<hex>, the first 6 or more digits of it, or a number; by default the newest";
constexpr char kNamedHelp[] = "sha256:<hex>, the first 6 or more digits of it, or a number";

struct SnapshotFlags {
  std::string snapshot;
  std::string other;
  std::string file;
  std::string note;
  std::string digest;
  std::string kernel;
  std::string device;
  std::string dtype;
  std::vector<std::string> dims;
  std::string format = "json";
  uint32_t keep = 0;
  bool artifacts = false;
};

std::string LineOf(const v1::Snapshot& snapshot) {
  return absl::StrCat("snapshot ", snapshot.number(), ", ",
                      Counted(snapshot.record_count(), "record"), ", ", snapshot.digest());
}

absl::Status ListSnapshots(Session& session, const SnapshotFlags&) {
  ASSIGN_OR_RETURN(
      const v1::ListSnapshotsResponse response,
      Call(session.Connect(Need::kRead), &v1::SnapshotService::Stub::ListSnapshots, {}));
  if (!response.problem().empty()) {
    std::fprintf(stderr, "the newest could not be written: %s\n", response.problem().c_str());
  }
  const auto row = [](const v1::Snapshot& snapshot) -> Cells {
    const std::string pinned = !snapshot.pinned()        ? ""
                               : snapshot.note().empty() ? "yes"
                                                         : snapshot.note();
    return {absl::StrCat(snapshot.number()),
            absl::StrCat(snapshot.record_count()),
            BytesText(static_cast<double>(snapshot.bytes())),
            TimeText(snapshot.published_unix_ms()),
            pinned,
            absl::StrCat(snapshot.digest(), snapshot.newest() ? "  newest" : "")};
  };
  RETURN_IF_ERROR(PrintList(session, "snapshots", response.snapshots(),
                            {"number", "records", "size", "published", "pinned", "digest"}, row));
  if (!session.json) std::fprintf(stderr, "in %s\n", response.folder().c_str());
  return absl::OkStatus();
}

struct WholeSnapshot {
  v1::Snapshot snapshot;
  std::string text;
};

absl::StatusOr<WholeSnapshot> Read(Connection* connection, const std::string& snapshot) {
  WholeSnapshot whole;
  v1::ReadSnapshotRequest request;
  request.set_snapshot(snapshot);
  while (true) {
    request.set_offset(whole.text.size());
    ASSIGN_OR_RETURN(const v1::ReadSnapshotResponse response,
                     Call(connection, &v1::SnapshotService::Stub::ReadSnapshot, request));
    whole.text += response.piece();
    whole.snapshot = response.snapshot();
    request.set_snapshot(whole.snapshot.digest());  // the newest may be another by now
    if (response.piece().empty() || whole.text.size() >= whole.snapshot.bytes()) return whole;
  }
}

absl::StatusOr<nlohmann::json> ReadJson(Session& session, const std::string& snapshot) {
  ASSIGN_OR_RETURN(auto connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(auto whole, Read(connection, snapshot));
  auto json = nlohmann::json::parse(whole.text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("records") && json["records"].is_array()) return json;
  return absl::DataLossError(absl::StrCat("snapshot ", whole.snapshot.digest(), " is damaged"));
}

// A member, or null if there is none: a file from elsewhere may hold anything.
const nlohmann::json& Member(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

// Members of an object as "BLOCK_M=64 STAGES=2"; anything else by itself.
std::string TextOf(const nlohmann::json& json) {
  if (json.is_null()) return "";
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) return json.dump();
  std::string text;
  for (const auto& [name, value] : json.items()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", TextOf(value));
  }
  return text;
}

std::string TextOf(const nlohmann::json& object, const char* name) {
  return TextOf(Member(object, name));
}

std::string ProblemOf(const nlohmann::json& record) {
  const nlohmann::json& hard = Member(record, "hard");
  const std::string warm = TextOf(hard, "cache_mode") == "warm" ? " warm" : "";
  return absl::StrCat(TextOf(hard, "dims"), " ", TextOf(hard, "dtype"), warm);
}

// The name of a record's workload, for people.
std::string KeyOf(const nlohmann::json& record) {
  const nlohmann::json& hard = Member(record, "hard");
  return absl::StrCat(TextOf(record, "kernel"), "  ", ProblemOf(record), "  ",
                      TextOf(hard, "device"), "  ", TextOf(hard, "kernel_hash").substr(0, 12));
}

std::string LatencyOf(const nlohmann::json& record) {
  const nlohmann::json& median = Member(Member(record, "latency_ns"), "median");
  return median.is_number() ? LatencyText(median.get<double>()) : "";
}

absl::Status Show(Session& session, const SnapshotFlags& flags) {
  ASSIGN_OR_RETURN(auto json, ReadJson(session, flags.snapshot));
  if (session.json) {
    std::printf("%s\n", json.dump(-1, ' ', /*ensure_ascii=*/true).c_str());
    return absl::OkStatus();
  }
  Table table({"kernel", "problem", "device", "latency", "confidence", "config"});
  size_t shown = 0;
  for (const nlohmann::json& record : json["records"]) {
    if (!flags.kernel.empty() && TextOf(record, "kernel") != flags.kernel) continue;
    table.Add({TextOf(record, "kernel"), ProblemOf(record),
               TextOf(Member(record, "hard"), "device"), LatencyOf(record),
               TextOf(record, "confidence"), TextOf(record, "config")});
    ++shown;
  }
  if (shown == 0 && !flags.kernel.empty()) {
    return absl::NotFoundError(absl::StrCat("the snapshot has no record of ", flags.kernel,
                                            "; see `tunectl snapshot show`"));
  }
  std::fputs(table.Text().c_str(), stdout);
  return absl::OkStatus();
}

using Records = std::pair<const nlohmann::json*, const nlohmann::json*>;  // null: not there

// A record as a side of a difference, for programs.
nlohmann::json SideOf(const nlohmann::json* record) {
  if (record == nullptr) return nullptr;
  return {{"config", Member(*record, "config")},
          {"latency_ns", Member(*record, "latency_ns")},
          {"confidence", Member(*record, "confidence")},
          {"published_unix_ms", Member(*record, "published_unix_ms")}};
}

nlohmann::json ToJson(const Records& row) {
  const nlohmann::json& any = row.first != nullptr ? *row.first : *row.second;
  return {{"kernel", Member(any, "kernel")},
          {"hard", Member(any, "hard")},
          {"before", SideOf(row.first)},
          {"after", SideOf(row.second)}};
}

void Print(const std::string& key, const Records& row) {
  const auto& [before, after] = row;
  if (before == nullptr || after == nullptr) {
    std::printf("%s %s\n    %s\n", before == nullptr ? "+" : "-", key.c_str(),
                TextOf(before == nullptr ? *after : *before, "config").c_str());
    return;
  }
  std::printf("~ %s\n    %s  %s\n    %s  %s\n", key.c_str(), TextOf(*before, "config").c_str(),
              LatencyOf(*before).c_str(), TextOf(*after, "config").c_str(),
              LatencyOf(*after).c_str());
}

absl::Status Diff(Session& session, const SnapshotFlags& flags) {
  ASSIGN_OR_RETURN(auto before, ReadJson(session, flags.snapshot));
  ASSIGN_OR_RETURN(auto after, ReadJson(session, flags.other));
  std::map<std::string, Records> rows;
  for (const nlohmann::json& record : before["records"]) rows[KeyOf(record)].first = &record;
  for (const nlohmann::json& record : after["records"]) rows[KeyOf(record)].second = &record;
  const size_t count = rows.size();
  std::erase_if(rows, [](const auto& entry) {
    const auto& [old_record, new_record] = entry.second;
    return old_record != nullptr && new_record != nullptr &&
           Member(*old_record, "config") == Member(*new_record, "config");
  });
  if (session.json) std::fputs("{\"differences\": [", stdout);
  const char* separator = "\n";
  for (const auto& [key, row] : rows) {
    if (session.json) {
      std::printf("%s%s", separator, ToJson(row).dump(-1, ' ', /*ensure_ascii=*/true).c_str());
    } else {
      Print(key, row);
    }
    separator = ",\n";
  }
  if (session.json) std::fputs(rows.empty() ? "]}\n" : "\n]}\n", stdout);
  std::fprintf(stderr, "%zu of %zu configs differ\n", rows.size(), count);
  return absl::OkStatus();
}

absl::Status Pin(Session& session, const SnapshotFlags& flags) {
  v1::PinSnapshotRequest request;
  request.set_snapshot(flags.snapshot);
  request.set_note(flags.note);
  ASSIGN_OR_RETURN(const v1::Snapshot pinned,
                   Call(session.Connect(), &v1::SnapshotService::Stub::PinSnapshot, request));
  // The digest alone, for TUNE_SNAPSHOT=$(tunectl snapshot pin).
  std::printf("%s\n", pinned.digest().c_str());
  std::fprintf(stderr, "%s is pinned\n", LineOf(pinned).c_str());
  return absl::OkStatus();
}

absl::Status Unpin(Session& session, const SnapshotFlags& flags) {
  v1::UnpinSnapshotRequest request;
  request.set_snapshot(flags.snapshot);
  ASSIGN_OR_RETURN(const v1::Snapshot unpinned,
                   Call(session.Connect(), &v1::SnapshotService::Stub::UnpinSnapshot, request));
  std::printf("%s is not pinned\n", LineOf(unpinned).c_str());
  return absl::OkStatus();
}

// The name of the device that `tunectl best` takes --device for; else its value.
std::string DeviceName(Connection* connection, const SnapshotFlags& flags) {
  if (flags.device.empty()) return flags.device;
  v1::ExplainRequest request;
  request.set_most(1);
  request.mutable_question()->set_kernel_name(flags.kernel);
  request.mutable_question()->set_device(flags.device);
  const auto response = Call(connection, &v1::RecordService::Stub::Explain, request);
  return response.ok() ? response->device_name() : flags.device;
}

absl::StatusOr<Exported> Convert(Connection* connection, const WholeSnapshot& whole,
                                 const SnapshotFlags& flags) {
  for (const ExportFormat& format : ExportFormats()) {
    if (format.name != flags.format) continue;
    if (flags.kernel.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--format ", format.name, " is of one kernel: name it with --kernel"));
    }
    ExportChoice choice = {
        .kernel = flags.kernel, .device = DeviceName(connection, flags), .dtype = flags.dtype};
    for (const std::string& text : flags.dims) {
      auto dim = ParseDimSweep(text, /*values_max=*/1);
      if (!dim.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--dim '", text, "': needs a dim and its size, such as K=4096"));
      }
      choice.dims.emplace_back(dim->dim, dim->values.front());
    }
    ASSIGN_OR_RETURN(auto source, ReadExportSource(whole.text, whole.snapshot.digest(), choice));
    ASSIGN_OR_RETURN(Exported exported, format.write(source));
    exported.notes.insert(exported.notes.begin(), source.notes.begin(), source.notes.end());
    return exported;
  }
  return Exported{.files = {{"", whole.text}}};
}

absl::StatusOr<std::string> ReadArtifact(Connection* connection, const std::string& artifact) {
  std::string text;
  v1::ReadArtifactRequest request;
  request.set_artifact(artifact);
  while (true) {
    request.set_offset(text.size());
    ASSIGN_OR_RETURN(const v1::ReadArtifactResponse response,
                     Call(connection, &v1::RecordService::Stub::ReadArtifact, request));
    text += response.piece();
    if (response.piece().empty() || text.size() >= response.bytes()) return text;
  }
}

// The artifacts that a snapshot names; of one kernel, or of all.
std::set<std::string> ArtifactsOf(const std::string& snapshot, const std::string& kernel) {
  const auto json = nlohmann::json::parse(snapshot, nullptr, /*allow_exceptions=*/false);
  std::set<std::string> artifacts;
  for (const nlohmann::json& record : Member(json, "records")) {
    const bool ours = kernel.empty() || TextOf(record, "kernel") == kernel;
    const std::string artifact = TextOf(record, "artifact");
    if (ours && !artifact.empty()) artifacts.insert(artifact);
  }
  return artifacts;
}

// In the folder `artifacts` beside the snapshot's file; empty: no digest names it.
std::string ArtifactPath(const std::string& snapshot_file, const std::string& artifact) {
  absl::string_view hex = artifact;
  const bool named = absl::ConsumePrefix(&hex, "sha256:") &&
                     hex.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
  if (!named) return "";
  return std::filesystem::path(snapshot_file).parent_path() / "artifacts" /
         absl::StrCat("sha256-", hex, ".artifact");
}

// Writes the artifacts that the snapshot names into that folder. An artifact that is not stored any
// more, or that is of another submitter's kernel, is reported and left out.
absl::Status ExportArtifacts(Connection* connection, const WholeSnapshot& whole,
                             const SnapshotFlags& flags) {
  const std::set<std::string> wanted = ArtifactsOf(whole.text, flags.kernel);
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(flags.file).parent_path() / "artifacts",
                                      ignored);
  size_t written = 0;
  for (const std::string& artifact : wanted) {
    auto text = ReadArtifact(connection, artifact);
    if (absl::IsNotFound(text.status()) || absl::IsInvalidArgument(text.status()) ||
        absl::IsPermissionDenied(text.status())) {
      std::fprintf(stderr, "left out: %s\n", std::string(text.status().message()).c_str());
      continue;
    }
    RETURN_IF_ERROR(text.status());
    const std::string path = ArtifactPath(flags.file, artifact);
    RETURN_IF_ERROR(WriteFile(path, *text));
    ++written;
    std::printf("%s\n", path.c_str());
  }
  if (wanted.empty()) {
    std::fputs("without artifacts: none of its records names one\n", stderr);
  } else {
    std::fprintf(stderr, "with %zu of the %zu artifacts that its records name\n", written,
                 wanted.size());
  }
  return absl::OkStatus();
}

absl::Status Export(Session& session, const SnapshotFlags& flags) {
  ASSIGN_OR_RETURN(auto connection, session.Connect(Need::kRead));
  ASSIGN_OR_RETURN(auto whole, Read(connection, flags.snapshot));
  ASSIGN_OR_RETURN(auto exported, Convert(connection, whole, flags));
  for (const ExportedFile& file : exported.files) {
    std::error_code ignored;
    if (!file.name.empty()) std::filesystem::create_directories(flags.file, ignored);
    const std::string path =
        file.name.empty() ? flags.file : absl::StrCat(flags.file, "/", file.name);
    RETURN_IF_ERROR(WriteFile(path, file.text));
    std::printf("%s\n", path.c_str());
  }
  if (flags.artifacts) RETURN_IF_ERROR(ExportArtifacts(connection, whole, flags));
  for (const std::string& note : exported.notes) std::fprintf(stderr, "%s\n", note.c_str());
  std::fprintf(stderr, "of %s\n", LineOf(whole.snapshot).c_str());
  return absl::OkStatus();
}

// "json", and what ExportFormats has.
std::vector<std::string> FormatNames() {
  std::vector<std::string> names = {"json"};
  for (const ExportFormat& format : ExportFormats()) names.push_back(format.name);
  return names;
}

std::string FormatHelp() {
  std::string help = "json: the snapshot itself";
  for (const ExportFormat& format : ExportFormats()) {
    absl::StrAppend(&help, "; ", format.name, ": ", format.help);
  }
  return help;
}

// Sends `text` in pieces; the other fields of `request` go with the first.
template <typename Request, typename Response>
absl::StatusOr<Response> Send(Connection* connection,
                              std::unique_ptr<grpc::ClientWriter<Request>> (
                                  v1::SnapshotService::Stub::*method)(grpc::ClientContext*,
                                                                      Response*),
                              Request request, const std::string& text) {
  grpc::ClientContext context;
  SetDeadline(context, kCallTimeout);
  Response response;
  auto stub = connection->stub<v1::SnapshotService>();
  const auto writer = (stub.*method)(&context, &response);
  for (size_t at = 0; at < text.size(); at += kSnapshotPieceBytes) {
    request.set_piece(text.substr(at, kSnapshotPieceBytes));
    if (!writer->Write(request)) break;
  }
  writer->WritesDone();
  RETURN_IF_ERROR(FromGrpc(writer->Finish()));
  return response;
}

bool IsStored(Connection* connection, const std::string& artifact) {
  v1::ReadArtifactRequest request;
  request.set_artifact(artifact);
  request.set_offset(1);  // at 0 the daemon reads all of it
  return Call(connection, &v1::RecordService::Stub::ReadArtifact, request).ok();
}

// Imports the artifacts that the snapshot names from the folder `artifacts` beside its file.
absl::Status ImportArtifacts(Connection* connection, const std::string& snapshot,
                             const std::string& file) {
  const std::set<std::string> named = ArtifactsOf(snapshot, "");
  size_t taken = 0;
  size_t stored = 0;  // before, of those that are not beside the file
  for (const std::string& artifact : named) {
    const std::string path = ArtifactPath(file, artifact);
    std::error_code error;
    if (path.empty() || !std::filesystem::exists(path, error)) {
      if (!path.empty() && IsStored(connection, artifact)) ++stored;
      continue;
    }
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    v1::ImportArtifactRequest first;
    first.set_artifact(artifact);
    const absl::Status status =
        Send(connection, &v1::SnapshotService::Stub::ImportArtifact, first, text).status();
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
    }
    ++taken;
  }
  if (named.empty()) return absl::OkStatus();
  const std::string here = stored == 0 ? ""
                           : taken == 0
                               ? ", which were here already"
                               : absl::StrCat(", and with ", stored, " that ",
                                              stored == 1 ? "was" : "were", " here already");
  std::fprintf(stderr, "with %zu of the %zu artifacts that it names%s\n",
               taken == 0 ? stored : taken, named.size(), here.c_str());
  return absl::OkStatus();
}

// The number of each snapshot, by its digest.
absl::StatusOr<std::map<std::string, int64_t>> NumbersOf(Connection* connection) {
  ASSIGN_OR_RETURN(const v1::ListSnapshotsResponse response,
                   Call(connection, &v1::SnapshotService::Stub::ListSnapshots, {}));
  std::map<std::string, int64_t> numbers;
  for (const v1::Snapshot& one : response.snapshots()) numbers[one.digest()] = one.number();
  return numbers;
}

absl::Status Import(Session& session, const SnapshotFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file));
  ASSIGN_OR_RETURN(auto connection, session.Connect());
  ASSIGN_OR_RETURN(const auto before, NumbersOf(connection));
  v1::ImportSnapshotRequest first;
  first.set_note(flags.note);
  first.set_digest(flags.digest);
  auto sent = Send(connection, &v1::SnapshotService::Stub::ImportSnapshot, first, text);
  if (absl::IsInvalidArgument(sent.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", flags.file, "': ", sent.status().message(),
                     "; `tunectl snapshot export FILE` writes a file that can be imported"));
  }
  ASSIGN_OR_RETURN(const v1::Snapshot imported, std::move(sent));
  std::printf("%s\n", LineOf(imported).c_str());
  std::fprintf(stderr, "%s; it is pinned. It answers those who name it, TUNE_SNAPSHOT=%s%s\n",
               before.contains(imported.digest()) ? "it was here already" : "imported",
               imported.digest().c_str(),
               imported.newest() ? "" : ", and is not the newest of this daemon's own");
  for (const auto& [digest, number] : before) {
    if (number != imported.number() || digest == imported.digest()) continue;
    std::fprintf(stderr, "%s has the number %ld, too, and is another: name both by their digests\n",
                 digest.c_str(), static_cast<long>(number));
  }
  return ImportArtifacts(connection, text, flags.file);
}

absl::Status Prune(Session& session, const SnapshotFlags& flags) {
  v1::PruneSnapshotsRequest request;
  request.set_keep(flags.keep);
  ASSIGN_OR_RETURN(const v1::PruneSnapshotsResponse response,
                   Call(session.Connect(), &v1::SnapshotService::Stub::PruneSnapshots, request));
  std::printf("%s removed, %s\n", Counted(response.removed(), "snapshot").c_str(),
              BytesText(static_cast<double>(response.removed_bytes())).c_str());
  return absl::OkStatus();
}

std::vector<Flag> ExportFlags(SnapshotFlags& flags) {
  return {Flag("FILE", &flags.file, "File to write; a folder if the format has several files")
              .Required(),
          Flag("--snapshot", &flags.snapshot, kSnapshotHelp),
          Flag("--format", &flags.format, FormatHelp()).OneOf(FormatNames()),
          Flag("--kernel", &flags.kernel,
               "Kernel of the records, for all formats but json, and of the artifacts"),
          Flag("--device", &flags.device,
               "Device of the records, by id, kind (cuda, cpu) or the start of its name; for all "
               "formats but json, if there are several"),
          Flag("--dtype", &flags.dtype,
               "Data type of the records, for all formats but json; by default any"),
          Flag("--dim", &flags.dims,
               "Only records with this size of a dim, for all formats but json; may be given "
               "several times")
              .Value("NAME=SIZE")
              .Repeated(),
          Flag("--artifacts", &flags.artifacts,
               "Write the compiled configs, too, into the folder `artifacts` beside FILE: for "
               "tunectl.kernel of the Python package")};
}

}  // namespace

Command SnapshotCommand(Session& session) {
  const auto flags = std::make_shared<SnapshotFlags>();
  const auto verb = [&](std::string name, std::string help, std::string json,
                        std::vector<Flag> its_flags,
                        absl::Status (*run)(Session&, const SnapshotFlags&)) {
    return Command{.name = std::move(name),
                   .help = std::move(help),
                   .json = std::move(json),
                   .flags = std::move(its_flags),
                   .run = [&session, flags, run] { return run(session, *flags); }};
  };
  const Flag any("SNAPSHOT", &flags->snapshot, kSnapshotHelp);
  return {.name = "snapshot",
          .help = "Immutable sets of records, for training jobs",
          .examples = {"TUNE_SNAPSHOT=$(tunectl snapshot pin --note run-17) torchrun train.py",
                       "tunectl snapshot export tuned.json"},
          .verbs = {
              verb("list", "List the snapshots, newest first", kJsonHelp, {}, ListSnapshots),
              verb("show", "Show the records of a snapshot", "Print the whole snapshot as JSON",
                   {any, Flag("--kernel", &flags->kernel, "Only records of this kernel")}, Show),
              verb("diff", "Compare the configs of two snapshots",
                   "Print JSON: each workload that differs, with its config before and after",
                   {Flag("BEFORE", &flags->snapshot, kNamedHelp).Required(),
                    Flag("AFTER", &flags->other, kSnapshotHelp)},
                   Diff),
              verb("pin", "Store a snapshot until it is unpinned; print its digest", "",
                   {any, Flag("--note", &flags->note, "Note of the pin, at most 200 bytes")}, Pin),
              verb("unpin", "Allow a snapshot to be removed when newer ones come", "",
                   {Flag("SNAPSHOT", &flags->snapshot, kNamedHelp).Required()}, Unpin),
              verb("export", "Write a snapshot to a file, for hosts without a daemon", "",
                   ExportFlags(*flags), Export),
              verb("import",
                   "Import a snapshot from a file with the artifacts beside it, and pin it", "",
                   {Flag("FILE", &flags->file, "File to read").Required(),
                    Flag("--note", &flags->note, "Note of the pin"),
                    Flag("--digest", &flags->digest,
                         "Expected digest, sha256:<64 hex digits>; reject the file if it differs")},
                   Import),
              verb("prune", "Remove snapshots that are neither pinned nor new", "",
                   {Flag("--keep", &flags->keep, "Snapshots to keep (default: tunerd --snapshots)")
                        .Range(1, 10000)},
                   Prune)}};
}

}  // namespace tune::client
