// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/parsers.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/tunerd_settings.h"
#include "base/address.h"
#include "base/elf_view.h"
#include "base/gzip.h"
#include "base/sha256.h"
#include "client/libtune/include/tune/tune.h"
#include "client/web/page_request.h"
#include "server/artifacts/artifact_text.h"
#include "server/snapshots/snapshot_text.h"
#include "server/wire/spec.h"
#include "server/worker/convert.h"
#include "server/worker/frame.h"
#include "tune/worker/v1/worker.pb.h"
#include "tuner/device/replay/formats.h"
#include "tuner/expression/expression.h"
#include "tuner/expression/python_list.h"
#include "tuner/source/constructs.h"
#include "tuner/source/source_check.h"
#include "tuner/source/source_functions.h"
#include "tuner/space/definition_json.h"
#include "tuner/space/space.h"

namespace tune {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "what was parsed contradicts itself: %s\n", what);
  std::abort();
}

// A file in memory with these bytes, for parsers that take a path.
class BytesFile {
 public:
  explicit BytesFile(absl::string_view bytes) : fd_(memfd_create("bytes", MFD_CLOEXEC)) {
    const auto size = static_cast<ssize_t>(bytes.size());
    Require(write(fd_, bytes.data(), bytes.size()) == size && lseek(fd_, 0, SEEK_SET) == 0,
            "a file in memory");
  }
  ~BytesFile() { close(fd_); }
  BytesFile(const BytesFile&) = delete;
  BytesFile& operator=(const BytesFile&) = delete;

  int fd() const { return fd_; }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

void VisitSpace(const Space& space) {
  const uint64_t index = space.SomeValid();
  Require(index < space.size(), "a valid index");
  Require(space.IndexOf(space.At(index)) == index, "the index of a config");
}

const SpaceEffort kSmall{.size = SpaceEffort::Size::kSmall};

// The file that a spec names may be any: its text is this one.
void ParseSpec(absl::string_view bytes) {
  const std::string text(bytes);
  const absl::StatusOr<server::WrittenSpec> written = server::ReadSpec("fuzz.textproto", text);
  if (!written.ok()) return;
  std::map<std::string, std::string> files = {{written->spec.source, "__global__ void f() {}"}};
  for (const std::string& header : written->spec.headers) files[header] = "";
  const auto kernel = server::ReadKernel("fuzz.textproto", text, files);
  if (!kernel.ok()) return;
  for (const char* target : {"cpu", "sm_90a"}) {
    const TargetTraits traits = *TargetTraitsFor(target);
    const absl::StatusOr<Problem> problem = (*kernel)->MakeProblem({}, "", target);
    if (!problem.ok()) continue;
    (*kernel)->PlanProblem(*problem, traits).IgnoreError();
    const absl::StatusOr<Config> config = (*kernel)->DefaultConfig(*problem, traits);
    if (config.ok() && (*kernel)->CheckConfig(*problem, traits, *config).ok()) {
      (*kernel)->PlanProgram(*problem, traits, *config).IgnoreError();
      (*kernel)->PlanLaunches(*problem, traits, *config).IgnoreError();
    }
    const absl::StatusOr<Space> space = (*kernel)->MakeSpace(*problem, traits, kSmall);
    if (space.ok()) VisitSpace(*space);
  }
}

void ParseExpression(absl::string_view bytes) {
  const absl::StatusOr<Expression> expression = Expression::Parse(std::string(bytes));
  if (!expression.ok()) return;
  Require(Expression::Parse(expression->text()).ok(), "an expression's text");
  Scope scope;
  int64_t value = -1;
  for (const std::string& name : expression->names()) scope.Set(name, Value(value += 2));
  expression->Evaluate(scope).IgnoreError();
  expression->EvaluateBoolean(scope).IgnoreError();
  expression->EvaluateText(scope).IgnoreError();
}

void ParseList(absl::string_view bytes) { ParsePythonList(std::string(bytes)).IgnoreError(); }

void ParseSpace(absl::string_view bytes) {
  const absl::StatusOr<SpaceDefinition> definition = ParseSpaceDefinition(std::string(bytes));
  if (!definition.ok()) return;
  const absl::StatusOr<Space> space = Space::Build(*definition, kSmall);
  if (space.ok()) VisitSpace(*space);
}

// The files of a recording, separated by a NUL: each a name, a line feed and the content.
void ParseRecording(absl::string_view bytes) {
  std::vector<replay::RecordingFile> files;
  for (const absl::string_view part : absl::StrSplit(bytes, '\0')) {
    const std::pair<std::string, std::string> file = absl::StrSplit(part, absl::MaxSplits('\n', 1));
    files.push_back({.name = file.first, .content = file.second});
  }
  const absl::StatusOr<replay::Recording> recording = replay::ReadRecording(files);
  if (!recording.ok()) return;
  for (const auto format : {replay::RecordingFormat::kNeutral, replay::RecordingFormat::kT4}) {
    const auto again = replay::ReadRecording(WriteRecording(*recording, format, "again"));
    Require(again.ok(), "a recording that was written");
    Require(again->trials.size() == recording->trials.size(), "the trials of a recording");
  }
}

// A worker's reply, in a frame.
void ParseFrame(absl::string_view bytes) {
  const BytesFile file(bytes);
  server::FrameReader reader;
  absl::StatusOr<bool> whole = false;
  while (whole.ok() && !*whole) whole = reader.ReadFrom(file.fd());
  worker::v1::WorkerReply reply;
  if (!whole.ok() || !reply.ParseFromString(reader.payload())) return;
  server::FromWire(reply.compiled()).IgnoreError();
  server::FromWire(reply.run()).IgnoreError();
  server::FromWireJudged(reply.run()).IgnoreError();
  server::FromWire(reply.hello().device()).IgnoreError();
}

// The daemon's request to a worker, with texts that may be a submitter's.
void ParseRequest(absl::string_view bytes) {
  worker::v1::WorkerRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  server::FromWire(request.compile()).IgnoreError();
  server::FromWire(request.prepare()).IgnoreError();
  server::FromWire(request.run()).IgnoreError();
  server::FromWire(request.judge()).IgnoreError();
}

void ParseArtifact(absl::string_view bytes) {
  const std::string digest = absl::StrCat("sha256:", Sha256Hex(bytes));
  server::CheckArtifactText(bytes, digest).IgnoreError();
}

// A cubin or a shared object that a compiler made of a submitter's source.
void ParseElf(absl::string_view bytes) {
  const std::optional<ElfView> elf = ElfView::Open(bytes);
  if (!elf.has_value()) return;
  size_t total = 0;
  for (const ElfView::Section& section : elf->sections()) total += section.contents.size();
  Require(total <= bytes.size(), "the sections' bytes");
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (const ElfView::Symbol& symbol : elf->Symbols(type)) {
      const absl::string_view contents = elf->ContentsAt(symbol);
      Require(
          contents.empty() || (contents.data() >= bytes.data() &&
                               contents.data() + contents.size() <= bytes.data() + bytes.size()),
          "a symbol's bytes");
    }
  }
}

// A snapshot: what an operator imports, and what jobs read by libtune.
void ParseSnapshot(absl::string_view bytes) {
  server::CheckSnapshotText(bytes).IgnoreError();
  const BytesFile file(bytes);
  const std::string path = file.path();
  const tune_options options = {.size = sizeof options, .snapshot = path.c_str()};
  tune_client* client = nullptr;
  if (tune_open(&options, &client) != TUNE_OK) return;
  for (size_t i = 0; const char* kernel = tune_client_kernel(client, i); ++i) {
    const tune_question question = {
        .size = sizeof question, .kernel = kernel, .device = "NVIDIA H200"};
    tune_answer* answer = nullptr;
    if (tune_best(client, &question, &answer) == TUNE_OK) tune_answer_free(answer);
    char* text = nullptr;
    if (tune_explain_json(client, &question, 3, &text) == TUNE_OK) tune_free(text);
    if (tune_kernel_json(client, kernel, &text) == TUNE_OK) tune_free(text);
  }
  tune_close(client);
}

void ParseGzip(absl::string_view bytes) {
  constexpr size_t kMost = 1 << 20;
  const absl::StatusOr<std::string> text = Gunzip(bytes, kMost);
  if (text.ok()) Require(Gunzip(Gzip(*text), kMost).value_or("") == *text, "packed text");
  GunzipUntil(bytes, "\n", kMost).IgnoreError();
}

void ParseSettings(absl::string_view bytes) {
  const BytesFile file(bytes);
  const std::string path = file.path();
  const char* const arguments[] = {"tunerd", "--config", path.c_str()};
  ReadSettings(3, arguments).IgnoreError();
}

// A request line's target, its Host, and an address.
void ParseTargetOfPage(absl::string_view bytes) {
  const absl::StatusOr<client::PageRequest> request = client::ParseTarget(bytes);
  if (request.ok()) {
    Require(request->path.front() == '/', "a path");
    const auto again = client::ParseTarget(absl::StrCat("/", client::EscapedForUrl(request->path)));
    Require(again.ok() && again->path == absl::StrCat("/", request->path), "an escaped path");
  }
  client::IsLoopbackHost(bytes);
  HostPortOf(std::string(bytes)).IgnoreError();
}

void ParseSource(absl::string_view bytes) {
  const CompilePlan plan{.target = "sm_90a",
                         .source_name = "fuzz.cu",
                         .source_text = std::string(bytes),
                         .defines = {{"BLOCK", "128"}},
                         .entries = {"fuzz<128>"}};
  CheckIncludes(plan).IgnoreError();
  WhyNoKernel(plan);
  WhyNoSuchParameter(plan);
  FunctionsOf(plan);
  EntryOf(plan, "fuzz<128>");
}

constexpr Parser kParsers[] = {
    {"artifact", ParseArtifact},
    {"elf", ParseElf},
    {"expression", ParseExpression},
    {"frame", ParseFrame},
    {"gzip", ParseGzip},
    {"list", ParseList},
    {"recording", ParseRecording},
    {"request", ParseRequest},
    {"settings", ParseSettings},
    {"snapshot", ParseSnapshot},
    {"source", ParseSource},
    {"space", ParseSpace},
    {"spec", ParseSpec},
    {"target", ParseTargetOfPage},
};

}  // namespace

absl::Span<const Parser> Parsers() { return kParsers; }

}  // namespace tune
