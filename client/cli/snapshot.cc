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
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/user_file.h"
#include "client/connect/rpc.h"
#include "client/export/export_format.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/snapshot.pb.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr size_t kPieceBytes = size_t{2} << 20;
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
  bool json = false;
};

std::string LineOf(const v1::Snapshot& snapshot) {
  return absl::StrCat("snapshot ", snapshot.number(), ", ", snapshot.record_count(), " records, ",
                      snapshot.digest());
}

absl::Status List(Session& session, const SnapshotFlags& flags) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ListSnapshotsResponse response;
  absl::Status status = FromGrpc((*connection)->snapshots().ListSnapshots(&context, {}, &response));
  if (!status.ok()) return status;
  if (!response.problem().empty()) {
    std::fprintf(stderr, "the newest could not be written: %s\n", response.problem().c_str());
  }
  if (flags.json) {
    PrintJsonList("snapshots", response.snapshots());
    return absl::OkStatus();
  }
  Table table({"number", "records", "size", "published", "pinned", "digest"});
  for (const v1::Snapshot& snapshot : response.snapshots()) {
    const std::string pinned = !snapshot.pinned()        ? ""
                               : snapshot.note().empty() ? "yes"
                                                         : snapshot.note();
    table.Add({absl::StrCat(snapshot.number()), absl::StrCat(snapshot.record_count()),
               BytesText(static_cast<double>(snapshot.bytes())),
               snapshot.published_unix_ms() == 0 ? "-" : TimeText(snapshot.published_unix_ms()),
               pinned, absl::StrCat(snapshot.digest(), snapshot.newest() ? "  newest" : "")});
  }
  std::fputs(table.Text().c_str(), stdout);
  std::fprintf(stderr, "in %s\n", response.folder().c_str());
  return absl::OkStatus();
}

struct WholeSnapshot {
  v1::Snapshot snapshot;
  std::string text;
};

absl::StatusOr<WholeSnapshot> Read(Connection& connection, std::string snapshot) {
  WholeSnapshot whole;
  while (true) {
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    v1::ReadSnapshotRequest request;
    request.set_snapshot(snapshot);
    request.set_offset(whole.text.size());
    v1::ReadSnapshotResponse response;
    absl::Status status =
        FromGrpc(connection.snapshots().ReadSnapshot(&context, request, &response));
    if (!status.ok()) return status;
    whole.text += response.piece();
    whole.snapshot = response.snapshot();
    snapshot = whole.snapshot.digest();  // the newest may be another by now
    if (response.piece().empty() || whole.text.size() >= whole.snapshot.bytes()) return whole;
  }
}

absl::StatusOr<nlohmann::json> ReadJson(Session& session, const std::string& snapshot) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  auto whole = Read(**connection, snapshot);
  if (!whole.ok()) return whole.status();
  auto json = nlohmann::json::parse(whole->text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("records") && json["records"].is_array()) return json;
  return absl::DataLossError(absl::StrCat("snapshot ", whole->snapshot.digest(), " is damaged"));
}

// A file from elsewhere may hold anything: what is not there is null.
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

// What tells a record from the others, for people.
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
  auto json = ReadJson(session, flags.snapshot);
  if (!json.ok()) return json.status();
  if (flags.json) {
    std::printf("%s\n", json->dump(-1, ' ', /*ensure_ascii=*/true).c_str());
    return absl::OkStatus();
  }
  Table table({"kernel", "problem", "device", "latency", "confidence", "config"});
  size_t shown = 0;
  for (const nlohmann::json& record : (*json)["records"]) {
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

// What a record says of its workload, for programs.
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
  auto before = ReadJson(session, flags.snapshot);
  if (!before.ok()) return before.status();
  auto after = ReadJson(session, flags.other);
  if (!after.ok()) return after.status();
  std::map<std::string, Records> rows;
  for (const nlohmann::json& record : (*before)["records"]) rows[KeyOf(record)].first = &record;
  for (const nlohmann::json& record : (*after)["records"]) rows[KeyOf(record)].second = &record;
  const size_t count = rows.size();
  std::erase_if(rows, [](const auto& entry) {
    const auto& [old_record, new_record] = entry.second;
    return old_record != nullptr && new_record != nullptr &&
           Member(*old_record, "config") == Member(*new_record, "config");
  });
  if (flags.json) std::fputs("{\"differences\": [", stdout);
  const char* separator = "\n";
  for (const auto& [key, row] : rows) {
    if (flags.json) {
      std::printf("%s%s", separator, ToJson(row).dump(-1, ' ', /*ensure_ascii=*/true).c_str());
    } else {
      Print(key, row);
    }
    separator = ",\n";
  }
  if (flags.json) std::fputs(rows.empty() ? "]}\n" : "\n]}\n", stdout);
  std::fprintf(stderr, "%zu of %zu configs differ\n", rows.size(), count);
  return absl::OkStatus();
}

absl::Status Pin(Session& session, const SnapshotFlags& flags) {
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::PinSnapshotRequest request;
  request.set_snapshot(flags.snapshot);
  request.set_note(flags.note);
  v1::Snapshot pinned;
  absl::Status status =
      FromGrpc((*connection)->snapshots().PinSnapshot(&context, request, &pinned));
  if (!status.ok()) return status;
  // The digest alone, for TUNE_SNAPSHOT=$(tunectl snapshot pin).
  std::printf("%s\n", pinned.digest().c_str());
  std::fprintf(stderr, "%s is pinned\n", LineOf(pinned).c_str());
  return absl::OkStatus();
}

absl::Status Unpin(Session& session, const SnapshotFlags& flags) {
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::UnpinSnapshotRequest request;
  request.set_snapshot(flags.snapshot);
  v1::Snapshot unpinned;
  absl::Status status =
      FromGrpc((*connection)->snapshots().UnpinSnapshot(&context, request, &unpinned));
  if (status.ok()) std::printf("%s is not pinned\n", LineOf(unpinned).c_str());
  return status;
}

// The name of the device that `tunectl best` would take it for; else what was given.
std::string DeviceName(Connection& connection, const SnapshotFlags& flags) {
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ExplainRequest request;
  request.set_most(1);
  request.mutable_question()->set_kernel_name(flags.kernel);
  request.mutable_question()->set_device(flags.device);
  v1::ExplainResponse response;
  const bool known =
      !flags.device.empty() && connection.records().Explain(&context, request, &response).ok();
  return known ? response.device_name() : flags.device;
}

absl::StatusOr<Exported> Convert(Connection& connection, const WholeSnapshot& whole,
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
    auto source = ReadExportSource(whole.text, whole.snapshot.digest(), choice);
    if (!source.ok()) return source.status();
    auto exported = format.write(*source);
    if (!exported.ok()) return exported.status();
    exported->notes.insert(exported->notes.begin(), source->notes.begin(), source->notes.end());
    return exported;
  }
  return Exported{.files = {{"", whole.text}}};
}

absl::StatusOr<std::string> ReadArtifact(Connection& connection, const std::string& artifact) {
  std::string text;
  while (true) {
    grpc::ClientContext context;
    SetDeadline(context, kTimeout);
    v1::ReadArtifactRequest request;
    request.set_artifact(artifact);
    request.set_offset(text.size());
    v1::ReadArtifactResponse response;
    absl::Status status = FromGrpc(connection.records().ReadArtifact(&context, request, &response));
    if (!status.ok()) return status;
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

// Those that the snapshot names, into that folder. One that is not kept any more is said and left
// out.
absl::Status ExportArtifacts(Connection& connection, const WholeSnapshot& whole,
                             const SnapshotFlags& flags) {
  const std::set<std::string> wanted = ArtifactsOf(whole.text, flags.kernel);
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(flags.file).parent_path() / "artifacts",
                                      ignored);
  size_t written = 0;
  for (const std::string& artifact : wanted) {
    auto text = ReadArtifact(connection, artifact);
    if (absl::IsNotFound(text.status()) || absl::IsInvalidArgument(text.status())) {
      std::fprintf(stderr, "left out: %s\n", std::string(text.status().message()).c_str());
      continue;
    }
    if (!text.ok()) return text.status();
    const std::string path = ArtifactPath(flags.file, artifact);
    if (absl::Status status = WriteFile(path, *text); !status.ok()) return status;
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
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  auto whole = Read(**connection, flags.snapshot);
  if (!whole.ok()) return whole.status();
  auto exported = Convert(**connection, *whole, flags);
  if (!exported.ok()) return exported.status();
  for (const ExportedFile& file : exported->files) {
    std::error_code ignored;
    if (!file.name.empty()) std::filesystem::create_directories(flags.file, ignored);
    const std::string path =
        file.name.empty() ? flags.file : absl::StrCat(flags.file, "/", file.name);
    const absl::Status written = WriteFile(path, file.text);
    if (!written.ok()) return written;
    std::printf("%s\n", path.c_str());
  }
  if (flags.artifacts) {
    const absl::Status status = ExportArtifacts(**connection, *whole, flags);
    if (!status.ok()) return status;
  }
  for (const std::string& note : exported->notes) std::fprintf(stderr, "%s\n", note.c_str());
  std::fprintf(stderr, "of %s\n", LineOf(whole->snapshot).c_str());
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

// `request` has what comes with the first piece.
template <typename Request>
absl::Status Send(grpc::ClientWriter<Request>& writer, Request request, const std::string& text) {
  for (size_t at = 0; at < text.size(); at += kPieceBytes) {
    request.set_piece(text.substr(at, kPieceBytes));
    if (!writer.Write(request)) break;
  }
  writer.WritesDone();
  return FromGrpc(writer.Finish());
}

absl::Status ImportArtifact(Connection& connection, const std::string& artifact,
                            const std::string& text) {
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ImportArtifactRequest first;
  first.set_artifact(artifact);
  v1::ImportArtifactResponse response;
  auto writer = connection.snapshots().ImportArtifact(&context, &response);
  return Send(*writer, first, text);
}

// Those that the snapshot names and that lie in the folder `artifacts` beside its file.
absl::Status ImportArtifacts(Connection& connection, const std::string& snapshot,
                             const std::string& file) {
  const std::set<std::string> named = ArtifactsOf(snapshot, "");
  size_t taken = 0;
  for (const std::string& artifact : named) {
    const std::string path = ArtifactPath(file, artifact);
    std::error_code error;
    if (path.empty() || !std::filesystem::exists(path, error)) continue;
    const absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return text.status();
    const absl::Status status = ImportArtifact(connection, artifact, *text);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
    }
    ++taken;
  }
  if (!named.empty()) {
    std::fprintf(stderr, "with %zu of the %zu artifacts that it names\n", taken, named.size());
  }
  return absl::OkStatus();
}

// Of the snapshots there are: each digest with its number.
absl::StatusOr<std::map<std::string, int64_t>> NumbersOf(Connection& connection) {
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ListSnapshotsResponse response;
  absl::Status status = FromGrpc(connection.snapshots().ListSnapshots(&context, {}, &response));
  if (!status.ok()) return status;
  std::map<std::string, int64_t> numbers;
  for (const v1::Snapshot& one : response.snapshots()) numbers[one.digest()] = one.number();
  return numbers;
}

absl::Status Import(Session& session, const SnapshotFlags& flags) {
  const absl::StatusOr<std::string> text = ReadFile(flags.file);
  if (!text.ok()) return text.status();
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  const auto before = NumbersOf(**connection);
  if (!before.ok()) return before.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ImportSnapshotRequest first;
  first.set_note(flags.note);
  first.set_digest(flags.digest);
  v1::Snapshot imported;
  auto writer = (*connection)->snapshots().ImportSnapshot(&context, &imported);
  const absl::Status status = Send(*writer, first, *text);
  if (absl::IsInvalidArgument(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", flags.file, "': ", status.message(),
                     "; `tunectl snapshot export FILE` writes a file that can be imported"));
  }
  if (!status.ok()) return status;
  std::printf("%s\n", LineOf(imported).c_str());
  std::fprintf(stderr, "%s; it is pinned. It answers those who name it, TUNE_SNAPSHOT=%s%s\n",
               before->contains(imported.digest()) ? "it was here already" : "imported",
               imported.digest().c_str(),
               imported.newest() ? "" : ", and is not the newest of this daemon's own");
  for (const auto& [digest, number] : *before) {
    if (number != imported.number() || digest == imported.digest()) continue;
    std::fprintf(stderr, "%s has the number %ld, too, and is another: name both by their digests\n",
                 digest.c_str(), static_cast<long>(number));
  }
  return ImportArtifacts(**connection, *text, flags.file);
}

absl::Status Prune(Session& session, const SnapshotFlags& flags) {
  auto connection = session.Connect();
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::PruneSnapshotsRequest request;
  request.set_keep(flags.keep);
  v1::PruneSnapshotsResponse response;
  absl::Status status =
      FromGrpc((*connection)->snapshots().PruneSnapshots(&context, request, &response));
  if (!status.ok()) return status;
  std::printf("%u snapshots removed, %s\n", response.removed(),
              BytesText(static_cast<double>(response.removed_bytes())).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddSnapshot(CLI::App& app, Session& session) {
  CLI::App* snapshot =
      app.add_subcommand("snapshot",
                         "Sets of records that never change, for training jobs.\nExamples:\n"
                         "  TUNE_SNAPSHOT=$(tunectl snapshot pin --note run-17) torchrun train.py\n"
                         "  tunectl snapshot export tuned.json");
  snapshot->require_subcommand(1);
  auto flags = std::make_shared<SnapshotFlags>();
  const auto verb = [&, snapshot](const char* name, const char* help,
                                  absl::Status (*run)(Session&, const SnapshotFlags&)) {
    CLI::App* command = snapshot->add_subcommand(name, help);
    command->callback([&session, flags, run] { session.Finish(run(session, *flags)); });
    return command;
  };

  verb("list", "The snapshots there are, newest first", List)
      ->add_flag("--json", flags->json, "As JSON");
  CLI::App* show = verb("show", "The records of a snapshot", Show);
  show->add_option("SNAPSHOT", flags->snapshot, kSnapshotHelp);
  show->add_option("--kernel", flags->kernel, "Only this kernel's");
  show->add_flag("--json", flags->json, "The whole snapshot as JSON");
  CLI::App* diff = verb("diff", "The configs that differ between two snapshots", Diff);
  diff->add_option("BEFORE", flags->snapshot, kNamedHelp)->required();
  diff->add_option("AFTER", flags->other, kSnapshotHelp);
  diff->add_flag("--json", flags->json,
                 "As JSON: of each workload that differs, the config before and after");
  CLI::App* pin = verb("pin", "Keep a snapshot until it is unpinned; prints its digest", Pin);
  pin->add_option("SNAPSHOT", flags->snapshot, kSnapshotHelp);
  pin->add_option("--note", flags->note, "What for, at most 200 bytes");
  verb("unpin", "Let a snapshot go when newer ones come", Unpin)
      ->add_option("SNAPSHOT", flags->snapshot, kNamedHelp)
      ->required();
  CLI::App* write =
      verb("export", "Write a snapshot to a file, for hosts without a daemon", Export);
  write->add_option("FILE", flags->file, "To write; for several files a folder")->required();
  write->add_option("--snapshot", flags->snapshot, kSnapshotHelp);
  write->add_option("--format", flags->format, FormatHelp())
      ->check(CLI::IsMember(FormatNames()))
      ->capture_default_str();
  write->add_option("--kernel", flags->kernel,
                    "Whose records, for all formats but json; whose artifacts");
  write->add_option("--device", flags->device,
                    "Device name or the start of it, id or kind (cuda, cpu); for all formats but "
                    "json, if there are several");
  write->add_option("--dtype", flags->dtype,
                    "Data type of the records, for all formats but json; any by default");
  write
      ->add_option("--dim", flags->dims,
                   "NAME=SIZE: only records with this dim, for all formats but json; may be given "
                   "several times")
      ->allow_extra_args(false);
  write->add_flag("--artifacts", flags->artifacts,
                  "Also what the records' configs were compiled to, into the folder `artifacts` "
                  "beside FILE: for tunectl.kernel of the Python package");
  CLI::App* read = verb(
      "import", "Take a snapshot from a file with the artifacts beside it, and pin it", Import);
  read->add_option("FILE", flags->file, "To read")->required();
  read->add_option("--note", flags->note, "Of the pin");
  read->add_option("--digest", flags->digest,
                   "sha256:<64 hex digits>, as the export told it: refuse a file of other bytes");
  verb("prune", "Remove snapshots that are neither pinned nor new", Prune)
      ->add_option("--keep", flags->keep, "Snapshots to keep (default: tunerd --snapshots)")
      ->check(CLI::Range(1, 10000));
}

}  // namespace tune::client
