// SPDX-License-Identifier: Apache-2.0
#include "client/cli/kernel_files.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/contained_file.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kernels/shared_headers.h"

namespace tune::client {
namespace {

constexpr size_t kMaxSourceBytes = 1 << 20;
constexpr size_t kMaxDataBytes = 16 << 20;
constexpr size_t kMaxFiles = 256;
constexpr int kNestedMax = 100;  // unknown fields may be nested without end

// The server reports errors, with everything it knows; this parse only looks for file names.
class IgnoreErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

// Whether the header names another message (`# proto-message: tune.v1.FusionTable`) or, without a
// header, the text has fields of another message and none that only a kernel has. A spec with a
// mistake in it is still one.
bool IsOfAnotherMessage(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && !absl::ConsumePrefix(&line, "#")) break;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "proto-message:")) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(line, '.');
    return absl::StripAsciiWhitespace(parts.back()) != v1::KernelSpec::descriptor()->name();
  }
  IgnoreErrors ignore;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&ignore);
  v1::KernelSpec spec;
  if (parser.ParseFromString(text, &spec)) return false;
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(kNestedMax);
  if (!parser.ParseFromString(text, &spec)) return false;
  spec.clear_name();
  spec.clear_summary();
  return spec.ByteSizeLong() == 0;
}

// The files that buffers are filled with or compared with.
std::set<std::string> DataFilesOf(const v1::KernelSpec& spec) {
  std::set<std::string> names;
  for (const v1::Arg& arg : spec.args()) {
    names.insert({arg.buffer().file(), arg.buffer().expected(), arg.symbol().file()});
  }
  names.erase("");
  return names;
}

// A file that has to be there.
absl::StatusOr<std::string> ReadNamed(const FileReader& read, const std::string& folder,
                                      const std::string& name, size_t bytes_max) {
  absl::StatusOr<std::string> text = read(folder, name, bytes_max);
  if (!absl::IsNotFound(text.status())) return text;
  return absl::InvalidArgumentError(text.status().message());
}

// The folder that a folder lies in, by its name alone.
std::filesystem::path Above(const std::filesystem::path& folder) {
  const std::filesystem::path above = (folder / "..").lexically_normal();
  return above.has_filename() ? above : above.parent_path();  // "kernels/" is "kernels"
}

// The text of a shared header for the kernel in `folder`. A kernel that lies in a folder "kernels"
// is read with the headers of that folder's "include", so that each revision of a catalogue is read
// with its own; any other kernel, and where that folder lacks the header, with the shipped ones.
absl::StatusOr<std::string> ReadShared(const FileReader& read, const std::string& folder,
                                       const std::string& name) {
  const std::filesystem::path path(folder);
  if (!absl::IsNotFound(read(folder, name, kMaxSourceBytes).status())) {
    return SharedHeaderClash((path / name).string(), name);
  }
  std::error_code error;
  if (Above(std::filesystem::absolute(path / ".", error)).filename() == "kernels") {
    const std::string above = Above(path).string();
    absl::StatusOr<std::string> text =
        read(above == "." ? "" : above, absl::StrCat("include/", name), kMaxSourceBytes);
    if (!absl::IsNotFound(text.status())) return text;
  }
  return std::string(SharedHeaders().at(name));
}

// Adds the files, which may have so many bytes in all.
absl::Status AddFiles(const std::string& folder, const std::set<std::string>& names,
                      size_t bytes_left, const FileReader& read, v1::KernelSource& source) {
  for (const std::string& name : names) {
    // A name that leaves the folder is refused by the server; nothing outside is read for it here.
    if (name == ".." || absl::StrContains(name, '/')) continue;
    ASSIGN_OR_RETURN(std::string text, ReadNamed(read, folder, name, bytes_left));
    bytes_left -= text.size();
    (*source.mutable_files())[name] = std::move(text);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelFiles> ReadKernelFiles(const std::string& path) {
  return ReadKernelFiles(path, ReadContained);
}

absl::StatusOr<KernelFiles> ReadKernelFiles(const std::string& path, const FileReader& read) {
  const std::filesystem::path spec_path(path);
  const std::string folder = spec_path.parent_path().string();
  for (const char* extension : {".cu", ".cuh", ".cc", ".cpp", ".py", ".ptx", ".cubin"}) {
    if (spec_path.extension() != extension) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is a source: give the spec (.textproto) that names it"));
  }
  ASSIGN_OR_RETURN(const std::string spec_text,
                   ReadNamed(read, folder, spec_path.filename().string(), kMaxSourceBytes));
  ASSIGN_OR_RETURN(ResolvedSpec resolved,
                   ResolveSharedHeaders(path, spec_text, [&](const std::string& name) {
                     return ReadShared(read, folder, name);
                   }));
  KernelFiles kernel;
  kernel.source.set_spec_name(path);
  kernel.source.set_spec_text(resolved.text);
  v1::KernelSpec& spec = kernel.spec;
  IgnoreErrors ignore;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&ignore);
  kernel.is_spec = !IsOfAnotherMessage(spec_text);
  if (!kernel.is_spec || !parser.ParseFromString(resolved.text, &spec)) {
    spec.Clear();
    return kernel;
  }

  std::set<std::string> names(spec.headers().begin(), spec.headers().end());
  names.insert({spec.source(), spec.reference().source(), spec.checker().source()});
  names.erase("");
  const std::set<std::string> data = DataFilesOf(spec);
  if (names.size() + data.size() > kMaxFiles) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' names ", names.size() + data.size(), " files; at most ", kMaxFiles));
  }
  size_t bytes = resolved.text.size();
  for (auto& [name, text] : resolved.headers) {
    names.erase(name);
    bytes += text.size();
    (*kernel.source.mutable_files())[name] = std::move(text);
  }
  if (bytes > kMaxSourceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' and its shared headers have ",
                                                   bytes, " bytes; at most ", kMaxSourceBytes));
  }
  RETURN_IF_ERROR(AddFiles(folder, names, kMaxSourceBytes - bytes, read, kernel.source));
  RETURN_IF_ERROR(AddFiles(folder, data, kMaxDataBytes, read, kernel.source));
  return kernel;
}

absl::StatusOr<std::string> ReadDefinition(const std::string& path) {
  const std::filesystem::path file(path);
  return ReadNamed(ReadContained, file.parent_path().string(), file.filename().string(),
                   kMaxSourceBytes);
}

}  // namespace tune::client
