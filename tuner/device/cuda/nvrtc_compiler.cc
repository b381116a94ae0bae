// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/nvrtc_compiler.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/cuda/nvrtc_api.h"
#include "tuner/device/cuda/ptx_parameters.h"
#include "tuner/device/ptxas_log.h"
#include "tuner/source/source_functions.h"
#include "tuner/status_macros.h"

namespace tune::cuda {
namespace {

// A template recursion can print megabytes; the first errors are the ones that help.
constexpr size_t kLogBytesMax = 64 * 1024;

// Architectures with a variant of their own instructions (WGMMA, tcgen05): only "sm_90a" and its
// like have them.
constexpr int kArchitecturesWithA[] = {90, 100, 101, 103, 110, 120, 121};

// Names of the kernels in a PTX text: ".visible .entry NAME(". Not from ptxas's log, which is empty
// where the driver had the result in its cache.
std::set<std::string> EntriesIn(const std::string& ptx) {
  const std::string entry = ".entry ";
  std::set<std::string> entries;
  for (size_t at = ptx.find(entry); at != std::string::npos; at = ptx.find(entry, at)) {
    at += entry.size();
    entries.insert(ptx.substr(at, ptx.find_first_of(" (\n", at) - at));
  }
  return entries;
}

class NvrtcCompiler : public Compiler {
 public:
  NvrtcCompiler(const NvrtcApi& nvrtc, std::string include_dir, std::vector<std::string> targets,
                std::string version)
      : nvrtc_(nvrtc),
        include_dir_(std::move(include_dir)),
        targets_(std::move(targets)),
        version_(std::move(version)) {}

  std::string Version() const override { return version_; }
  std::vector<std::string> Targets() const override { return targets_; }
  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override;

 private:
  absl::StatusOr<Artifact> CompileProgram(const CompilePlan& plan, nvrtcProgram program);
  std::vector<std::string> OptionsFor(const CompilePlan& plan) const;
  std::string LogOf(nvrtcProgram program) const;
  std::string PtxOf(nvrtcProgram program) const;

  const NvrtcApi nvrtc_;
  const std::string include_dir_;
  const std::vector<std::string> targets_;
  const std::string version_;
};

// An error of the request, told before NVRTC sees it; empty if there is none.
std::string WhyNotForNvrtc(const CompilePlan& plan, const std::vector<std::string>& targets) {
  if (std::find(targets.begin(), targets.end(), plan.target) == targets.end()) {
    return absl::StrCat("this NVRTC cannot compile for '", plan.target,
                        "'; known: ", absl::StrJoin(targets, ", "));
  }
  return WhyNotAllowed(plan);
}

absl::StatusOr<Artifact> NvrtcCompiler::Compile(const CompilePlan& plan) {
  if (std::string why = WhyNotForNvrtc(plan, targets_); !why.empty()) {
    return Refused(Outcome::kInvalidConfig, why);
  }
  if (std::string why = WhyNoKernel(plan); !why.empty()) {
    return Refused(Outcome::kCompileFailed, why);
  }
  auto begin = std::chrono::steady_clock::now();
  std::vector<const char*> texts;
  std::vector<const char*> names;
  for (const SourceFile& header : plan.headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      nvrtc_.nvrtcCreateProgram(&program, plan.source_text.c_str(), plan.source_name.c_str(),
                                static_cast<int>(plan.headers.size()), texts.data(), names.data());
  if (result != NVRTC_SUCCESS) {
    return Refused(Outcome::kCompileFailed, absl::StrCat("NVRTC did not take the source: ",
                                                         nvrtc_.nvrtcGetErrorString(result)));
  }
  absl::StatusOr<Artifact> artifact = CompileProgram(plan, program);
  nvrtc_.nvrtcDestroyProgram(&program);
  if (!artifact.ok()) return artifact;
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  artifact->seconds = elapsed.count();
  if (artifact->log.size() > kLogBytesMax) artifact->log.resize(kLogBytesMax);
  return artifact;
}

absl::StatusOr<Artifact> NvrtcCompiler::CompileProgram(const CompilePlan& plan,
                                                       nvrtcProgram program) {
  const std::vector<std::string> options = OptionsFor(plan);
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  nvrtcResult result =
      nvrtc_.nvrtcCompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
  Artifact artifact;
  artifact.log = LogOf(program);
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    return absl::FailedPreconditionError(absl::StrCat(
        "NVRTC cannot use its builtins library, which must be of the same version: ",
        artifact.log));
  }
  if (result != NVRTC_SUCCESS) {
    artifact.outcome =
        result == NVRTC_ERROR_INVALID_OPTION ? Outcome::kInvalidConfig : Outcome::kCompileFailed;
    if (result != NVRTC_ERROR_COMPILATION || artifact.log.empty()) {
      absl::StrAppend(&artifact.log, artifact.log.empty() ? "" : "\n",
                      nvrtc_.nvrtcGetErrorString(result));
    }
    return artifact;
  }
  // A missing extern "C" is the commonest slip of a new kernel; the loader's "not found" would hide
  // what there is instead.
  const std::string ptx = PtxOf(program);
  const std::set<std::string> entries = EntriesIn(ptx);
  for (const std::string& entry : plan.entries) {
    if (ptx.empty() || entries.count(entry) > 0) continue;
    return Refused(Outcome::kCompileFailed,
                   absl::StrCat(PlaceOf(plan, EntryOf(plan, entry)),
                                ": the compiled source has no kernel extern \"C\" __global__ '",
                                entry, "'; it has: ",
                                entries.empty() ? "none" : absl::StrJoin(entries, ", ")));
  }
  size_t size = 0;
  result = nvrtc_.nvrtcGetCUBINSize(program, &size);
  if (result == NVRTC_SUCCESS) {
    artifact.binary.resize(size);
    result = nvrtc_.nvrtcGetCUBIN(program, artifact.binary.data());
  }
  if (result != NVRTC_SUCCESS || size == 0) {
    return Refused(Outcome::kCompileFailed,
                   absl::StrCat("NVRTC gave no cubin: ", nvrtc_.nvrtcGetErrorString(result)));
  }
  for (const std::string& entry : plan.entries) {
    AddResources(ParsePtxasLog(artifact.log, entry), artifact.resources);
    artifact.entries.push_back({.name = entry, .parameters = ParsePtxParameters(ptx, entry)});
  }
  DescribeBinary(artifact);
  return artifact;
}

std::vector<std::string> NvrtcCompiler::OptionsFor(const CompilePlan& plan) const {
  // Headers come from the request and from CUDA's folder only.
  std::vector<std::string> options = {absl::StrCat("--gpu-architecture=", plan.target),
                                      "--no-source-include",
                                      absl::StrCat("-I", include_dir_),
                                      "-default-device",
                                      "--ptxas-options=-v"};
  bool has_standard = std::any_of(plan.options.begin(), plan.options.end(), [](const auto& text) {
    return absl::StartsWith(text, "--std") || absl::StartsWith(text, "-std");
  });
  if (!has_standard) options.push_back("--std=c++17");
  for (const std::string& option : plan.options) {
    // Given twice, it is an error to NVRTC 12.
    if (option != "-default-device") options.push_back(option);
  }
  for (const auto& [name, value] : plan.defines) {
    options.push_back(absl::StrCat("-D", name, "=", value));
  }
  return options;
}

std::string NvrtcCompiler::LogOf(nvrtcProgram program) const {
  size_t size = 0;
  if (nvrtc_.nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size == 0) return "";
  std::string log(size, '\0');
  if (nvrtc_.nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "";
  log.resize(log.find_last_not_of('\0') + 1);  // the size counts one final NUL or two
  return log;
}

// Empty if there is none.
std::string NvrtcCompiler::PtxOf(nvrtcProgram program) const {
  size_t size = 0;
  if (nvrtc_.nvrtcGetPTXSize(program, &size) != NVRTC_SUCCESS) return "";
  std::string ptx(size, '\0');
  return nvrtc_.nvrtcGetPTX(program, ptx.data()) == NVRTC_SUCCESS ? ptx : "";
}

absl::StatusOr<std::vector<std::string>> TargetsOf(const NvrtcApi& nvrtc) {
  int count = 0;
  nvrtcResult result = nvrtc.nvrtcGetNumSupportedArchs(&count);
  std::vector<int> architectures(result == NVRTC_SUCCESS ? count : 0);
  if (result == NVRTC_SUCCESS) result = nvrtc.nvrtcGetSupportedArchs(architectures.data());
  if (result != NVRTC_SUCCESS) {
    return absl::InternalError(
        absl::StrCat("nvrtcGetSupportedArchs: ", nvrtc.nvrtcGetErrorString(result)));
  }
  std::vector<std::string> targets;
  for (int architecture : architectures) {
    targets.push_back(absl::StrCat("sm_", architecture));
    const auto* end = std::end(kArchitecturesWithA);
    if (std::find(std::begin(kArchitecturesWithA), end, architecture) != end) {
      targets.push_back(absl::StrCat("sm_", architecture, "a"));
    }
  }
  return targets;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> MakeNvrtcCompiler(const Toolkit& toolkit) {
  ASSIGN_OR_RETURN(NvrtcApi nvrtc, NvrtcApi::Load(toolkit));
  ASSIGN_OR_RETURN(std::vector<std::string> targets, TargetsOf(nvrtc));
  int major = 0;
  int minor = 0;
  nvrtc.nvrtcVersion(&major, &minor);
  return std::make_unique<NvrtcCompiler>(nvrtc, toolkit.include_dir, std::move(targets),
                                         absl::StrCat("NVRTC ", major, ".", minor));
}

absl::StatusOr<std::unique_ptr<Compiler>> MakeNvrtcCompiler() {
  ASSIGN_OR_RETURN(Toolkit toolkit, FindToolkit());
  return MakeNvrtcCompiler(toolkit);
}

}  // namespace tune::cuda
