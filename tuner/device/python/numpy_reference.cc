// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/python/numpy_reference.h"

#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tuner/device/compile_request.h"
#include "tuner/device/host_call.h"
#include "tuner/device/problem_checks.h"
#include "tuner/device/python/interpreters.h"
#include "tuner/device/python/python_process.h"
#include "tuner/device_profile.h"

namespace tune::embedded {
extern const std::string_view numpy_probe;
extern const std::string_view numpy_reference_script;
}  // namespace tune::embedded

namespace tune::python {
namespace {

using nlohmann::json;

constexpr char kVariable[] = "TUNE_NUMPY_PYTHON";
constexpr size_t kBufferBytesMax = size_t{64} << 20;  // as the walls allow for one file

struct Installation {
  std::string python;
  std::string version;  // "NumPy 2.3.1, Python 3.11.2"
  CompilerFiles files;
};

absl::StatusOr<Installation> Ask(const std::string& python) {
  const std::string script = PythonScript(std::string(embedded::numpy_probe));
  ASSIGN_OR_RETURN(const std::string output, RunPython(python, {"-E", "-B", "-c", script}));
  const json about = json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!about.is_object()) {
    return absl::FailedPreconditionError(absl::StrCat(python, " does not run"));
  }
  const std::string numpy = TextIn(about, "version");
  if (numpy.empty()) return absl::FailedPreconditionError(absl::StrCat(python, " has no NumPy"));
  Installation found;
  found.python = TextIn(about, "program");
  found.version = absl::StrCat("NumPy ", numpy, ", Python ", TextIn(about, "python"));
  found.files.programs.push_back(TextIn(about, "executable"));
  AddLoaders(found.files.programs);
  for (const json& path : about.value("paths", json::array())) {
    if (path.is_string()) found.files.readable.push_back(path.get<std::string>());
  }
  return found;
}

absl::StatusOr<Installation> Find() {
  std::vector<std::string> reasons;
  for (const std::string& python : Candidates(kVariable)) {
    absl::StatusOr<Installation> found = Ask(python);
    if (found.ok()) return found;
    reasons.emplace_back(found.status().message());
  }
  if (reasons.empty()) reasons.emplace_back("there is no python3 on PATH");
  return absl::FailedPreconditionError(absl::StrCat(
      "no Python with NumPy: ", absl::StrJoin(reasons, "; "),
      ". Install it (pip install numpy), or name a Python that has it by --numpy-python or ",
      kVariable));
}

const char* ToText(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kOutput:
      return "output";
    case Role::kInOut:
      return "inout";
    case Role::kScratch:
      break;
  }
  return "scratch";
}

json ToJson(const Value& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

class NumpyReference : public Compiler {
 public:
  explicit NumpyReference(Installation installation) : installation_(std::move(installation)) {}
  Language language() const override { return Language::kNumpy; }
  std::string Version() const override { return installation_.version; }
  std::vector<std::string> Targets() const override {
    return {std::string(DeviceProfiles().back()->family)};
  }
  CompilerFiles Files() const override { return installation_.files; }
  absl::StatusOr<std::vector<std::string>> TryWalls() override {
    RETURN_IF_ERROR(EnsureProcess());
    return process_->TryWalls();
  }

  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override {
    if (plan.entries.size() != 1) return Refused(Outcome::kInvalidConfig, "one function is called");
    const auto begin = std::chrono::steady_clock::now();
    const std::string inputs = ScratchDir() + "/inputs";
    std::error_code error;
    std::filesystem::remove_all(inputs, error);
    std::filesystem::create_directories(inputs, error);
    json request;
    if (const std::string why = Write(plan, inputs, request); !why.empty()) {
      return Refused(Outcome::kInvalidConfig, why);
    }
    RETURN_IF_ERROR(EnsureProcess());
    ASSIGN_OR_RETURN(const PythonReply reply, process_->Ask(std::move(request)));
    if (TextIn(reply.about, "outcome") != "ok") {
      const std::string log = TextIn(reply.about, "log");
      return Refused(Outcome::kCompileFailed,
                     absl::StrCat(TextIn(reply.about, "message"), log.empty() ? "" : "\n", log));
    }
    Artifact artifact;
    artifact.log = TextIn(reply.about, "log");
    std::ifstream results(inputs + "/results", std::ios::binary);
    std::ostringstream bytes;
    bytes << results.rdbuf();
    artifact.binary = std::move(bytes).str();
    DescribeBinary(artifact);
    std::filesystem::remove_all(inputs, error);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    artifact.seconds = elapsed.count();
    return artifact;
  }

 private:
  static std::string ScratchDir() {
    const char* folder = getenv("TMPDIR");
    return folder == nullptr ? "/tmp" : folder;
  }

  // The request, with the inputs in files of `folder`; a sentence where that cannot be.
  static std::string Write(const CompilePlan& plan, const std::string& folder, json& request) {
    const HostCall& call = plan.call;
    request = {{"entry", plan.entries[0]},
               {"source_name", plan.source_name},
               {"files", {{plan.source_name, plan.source_text}}},
               {"wide", tune::ToText(call.wide)},
               {"results", folder + "/results"},
               {"buffers", json::array()},
               {"scalars", json::array()}};
    for (const SourceFile& header : plan.headers) request["files"][header.name] = header.text;
    for (const ScalarPlan& scalar : call.scalars) {
      request["scalars"].push_back({{"name", scalar.name}, {"value", ToJson(scalar.value)}});
    }
    size_t results = 0;
    for (const BufferPlan& buffer : call.buffers) {
      json about = {{"name", buffer.name},
                    {"dtype", tune::ToText(buffer.dtype)},
                    {"role", ToText(buffer.role)},
                    {"count", buffer.count},
                    {"shape", buffer.shape}};
      if (buffer.shape.empty()) about["shape"] = {buffer.count};
      const DType widest = buffer.role == Role::kInput ? buffer.dtype : ResultDType(buffer, call);
      const size_t bytes =
          static_cast<size_t>(buffer.count) * static_cast<size_t>(SizeInBytes(widest));
      if (buffer.count < 0 || std::max(bytes, DataBytes(buffer)) > kBufferBytesMax) {
        return absl::StrCat("buffer '", buffer.name,
                            "' is too large for a reference in NumPy, which takes 64 MiB a buffer: "
                            "choose smaller dims");
      }
      results += buffer.role == Role::kInput ? 0 : bytes;  // in one file
      if (results > kBufferBytesMax) {
        return absl::StrCat("with '", buffer.name, "' the results of the reference in NumPy have ",
                            "more than 64 MiB, in ", tune::ToText(call.wide),
                            ": choose smaller dims, or give the reference dtype: \"f32\"");
      }
      if (IsFilled(buffer.role)) {
        const std::string path = absl::StrCat(folder, "/", request["buffers"].size());
        std::ofstream file(path, std::ios::binary);
        const std::string elements = ElementsOf(buffer, call);
        file.write(elements.data(), static_cast<std::streamsize>(elements.size()));
        if (!file.flush()) {
          return absl::StrCat("no room for the inputs in ", folder, ": ", std::strerror(errno));
        }
        about["file"] = path;
      }
      request["buffers"].push_back(std::move(about));
    }
    return "";
  }

  absl::Status EnsureProcess() {
    if (process_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(process_, PythonProcess::Start(installation_.python,
                                                    std::string(embedded::numpy_reference_script),
                                                    "numpy", ScratchDir() + "/call"));
    return absl::OkStatus();
  }

  const Installation installation_;
  std::unique_ptr<PythonProcess> process_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> MakeNumpyReference() {
  ASSIGN_OR_RETURN(Installation found, Find());
  return std::make_unique<NumpyReference>(std::move(found));
}

}  // namespace tune::python
