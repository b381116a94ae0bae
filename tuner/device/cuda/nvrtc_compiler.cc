// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/nvrtc_compiler.h"

#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/cuda/nvrtc_api.h"
#include "tuner/device/cuda/ptx_parameters.h"
#include "tuner/device/cuda/standard_headers.h"
#include "tuner/device/ptxas_log.h"
#include "tuner/source/constructs.h"
#include "tuner/source/source_functions.h"
#include "tuner/source/source_macros.h"

namespace tune::cuda {
namespace {

// The folder given as the source's own, an empty one: NVRTC searches it for headers. (With that
// search switched off, it would not find what CUDA's own headers include beside them, either.)
constexpr char kNoFolder[] = "/dev/null/";
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

// "softmax" of "void ops::softmax<128, float>(float*)"; of a name that is not mangled, itself.
std::string NameIn(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  if (text == nullptr) return mangled;
  std::string name(text);
  free(text);
  return name.substr(0, name.find('('));
}

// The PTX symbols of a kernel that the spec names without template arguments: the name itself, or
// its mangled forms if it is not extern "C".
std::vector<std::string> SymbolsOf(const std::string& entry, const std::set<std::string>& symbols) {
  if (symbols.count(entry) > 0) return {entry};
  std::vector<std::string> found;
  for (const std::string& symbol : symbols) {
    if (NameIn(symbol) == entry) found.push_back(symbol);
  }
  return found;
}

bool IsInstance(const std::string& entry) { return entry.back() == '>'; }

std::string AddressOf(const CompileSymbol& symbol) { return absl::StrCat("&", symbol.variable); }

class NvrtcCompiler : public Compiler {
 public:
  NvrtcCompiler(const NvrtcApi& nvrtc, const Toolkit& toolkit, const IncludeRoots& include_roots,
                std::vector<std::string> targets, std::string version)
      : nvrtc_(nvrtc),
        toolkit_(toolkit),
        include_roots_(include_roots),
        headers_(StandardHeaders(toolkit)),
        targets_(std::move(targets)),
        version_(std::move(version)) {}

  std::string Version() const override { return version_; }
  std::vector<std::string> Targets() const override { return targets_; }
  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override;

 private:
  std::vector<SourceFile> HeadersFor(const CompilePlan& plan) const;
  nvrtcResult AddNames(const CompilePlan& plan, nvrtcProgram program) const;
  absl::StatusOr<Artifact> CompileProgram(const CompilePlan& plan, nvrtcProgram program);
  std::string WhyFailed(const CompilePlan& plan, const std::string& log) const;
  // NVRTC's symbol for an instance or a variable; empty if it reports none.
  std::string LoweredName(nvrtcProgram program, const std::string& name) const;
  // INVALID_ARGUMENT: the compiled source has no such kernel, or several.
  absl::StatusOr<std::vector<EntryFacts>> EntriesOf(const CompilePlan& plan, nvrtcProgram program,
                                                    const std::string& ptx) const;
  std::vector<std::string> OptionsFor(const CompilePlan& plan) const;
  std::string LogOf(nvrtcProgram program) const;
  std::string PtxOf(nvrtcProgram program) const;

  const NvrtcApi nvrtc_;
  const Toolkit toolkit_;
  const IncludeRoots include_roots_;
  const std::vector<SourceFile> headers_;
  const std::vector<std::string> targets_;
  const std::string version_;
};

// Checks the request before NVRTC sees it. Returns the error; empty if there is none.
std::string WhyNotForNvrtc(const CompilePlan& plan, const std::vector<std::string>& targets) {
  if (std::find(targets.begin(), targets.end(), plan.target) == targets.end()) {
    return absl::StrCat("this NVRTC cannot compile for '", plan.target,
                        "'; known: ", absl::StrJoin(targets, ", "));
  }
  return WhyNotAllowed(plan);
}

// The request's own first: they may be called as one of ours.
std::vector<SourceFile> NvrtcCompiler::HeadersFor(const CompilePlan& plan) const {
  std::vector<SourceFile> headers = plan.headers;
  for (const SourceFile& header : headers_) {
    const bool own = std::any_of(plan.headers.begin(), plan.headers.end(),
                                 [&](const SourceFile& file) { return file.name == header.name; });
    if (!own) headers.push_back(header);
  }
  return headers;
}

absl::StatusOr<Artifact> NvrtcCompiler::Compile(const CompilePlan& plan) {
  if (std::string why = WhyNotForNvrtc(plan, targets_); !why.empty()) {
    return Refused(Outcome::kInvalidConfig, why);
  }
  if (const absl::Status known = include_roots_.Check(plan.include_roots); !known.ok()) {
    return Refused(Outcome::kInvalidConfig, std::string(known.message()));
  }
  if (std::string why = WhyNoKernel(plan); !why.empty()) {
    return Refused(Outcome::kCompileFailed, why);
  }
  auto begin = std::chrono::steady_clock::now();
  std::vector<const char*> texts;
  std::vector<const char*> names;
  const std::vector<SourceFile> headers = HeadersFor(plan);
  for (const SourceFile& header : headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  const std::string source =
      absl::StrCat("#line 1 \"", plan.source_name, "\"\n", plan.source_text, SymbolChecks(plan));
  const std::string source_path = kNoFolder + plan.source_name;
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      nvrtc_.nvrtcCreateProgram(&program, source.c_str(), source_path.c_str(),
                                static_cast<int>(headers.size()), texts.data(), names.data());
  if (result == NVRTC_SUCCESS) result = AddNames(plan, program);
  if (result != NVRTC_SUCCESS) {
    if (program != nullptr) nvrtc_.nvrtcDestroyProgram(&program);
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

nvrtcResult NvrtcCompiler::AddNames(const CompilePlan& plan, nvrtcProgram program) const {
  nvrtcResult result = NVRTC_SUCCESS;
  for (const std::string& entry : plan.entries) {
    if (result != NVRTC_SUCCESS || !IsInstance(entry)) continue;
    result = nvrtc_.nvrtcAddNameExpression(program, entry.c_str());
  }
  for (const CompileSymbol& symbol : plan.symbols) {
    if (result != NVRTC_SUCCESS) continue;
    result = nvrtc_.nvrtcAddNameExpression(program, AddressOf(symbol).c_str());
  }
  return result;
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
    return absl::FailedPreconditionError(
        absl::StrCat("NVRTC cannot use its builtins library, which must be of the same version: ",
                     artifact.log));
  }
  if (result != NVRTC_SUCCESS) {
    artifact.outcome =
        result == NVRTC_ERROR_INVALID_OPTION ? Outcome::kInvalidConfig : Outcome::kCompileFailed;
    if (result != NVRTC_ERROR_COMPILATION || artifact.log.empty()) {
      absl::StrAppend(&artifact.log, artifact.log.empty() ? "" : "\n",
                      nvrtc_.nvrtcGetErrorString(result));
    }
    artifact.log = absl::StrCat(WhyFailed(plan, artifact.log), artifact.log);
    return artifact;
  }
  const std::string ptx = PtxOf(program);
  absl::StatusOr<std::vector<EntryFacts>> entries = EntriesOf(plan, program, ptx);
  if (!entries.ok()) {
    return Refused(Outcome::kCompileFailed, std::string(entries.status().message()));
  }
  artifact.entries = *std::move(entries);
  for (const CompileSymbol& symbol : plan.symbols) {
    artifact.symbols.push_back(
        {.variable = symbol.variable, .symbol = LoweredName(program, AddressOf(symbol))});
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
  for (const EntryFacts& entry : artifact.entries) {
    AddResources(ParsePtxasLog(artifact.log, entry.symbol), artifact.resources);
  }
  DescribeBinary(artifact);
  return artifact;
}

// The compiler talks of the list of names that we gave it.
std::string NvrtcCompiler::WhyFailed(const CompilePlan& plan, const std::string& log) const {
  if (std::string why = WhyNoHeader(log, plan.include_roots); !why.empty()) return why;
  if (std::string why = WhyHostHeader(log, plan); !why.empty()) return why;
  if (std::string why = WhyNotOnGpu(log); !why.empty()) return why;
  if (std::string why = MacroInTheWay(plan, log); !why.empty()) return why;
  if (!absl::StrContains(log, "__nv_name_map")) return "";
  for (const std::string& entry : plan.entries) {
    if (!IsInstance(entry)) continue;
    return absl::StrCat(PlaceOf(plan, EntryOf(plan, entry)), ": '", entry,
                        "' is no instance of a kernel that is a template:\n");
  }
  return absl::StrCat(plan.source_name, ": a symbol of the spec is no variable:\n");
}

std::string NvrtcCompiler::LoweredName(nvrtcProgram program, const std::string& name) const {
  const char* lowered = nullptr;
  const nvrtcResult result = nvrtc_.nvrtcGetLoweredName(program, name.c_str(), &lowered);
  return result == NVRTC_SUCCESS && lowered != nullptr ? lowered : "";
}

absl::StatusOr<std::vector<EntryFacts>> NvrtcCompiler::EntriesOf(const CompilePlan& plan,
                                                                 nvrtcProgram program,
                                                                 const std::string& ptx) const {
  const std::set<std::string> symbols = EntriesIn(ptx);
  std::vector<EntryFacts> entries;
  for (const std::string& name : plan.entries) {
    EntryFacts entry = {.name = name};
    if (IsInstance(name)) {
      entry.symbol = LoweredName(program, name);
    } else if (ptx.empty()) {
      entry.symbol = name;
    } else {
      const std::vector<std::string> found = SymbolsOf(name, symbols);
      if (found.size() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(PlaceOf(plan, EntryOf(plan, name)), ": the compiled source has ",
                         found.empty() ? "no kernel '" : "several kernels '", name,
                         found.empty() ? "'" : "', which must have names of their own",
                         "; it has: ", symbols.empty() ? "none" : absl::StrJoin(symbols, ", ")));
      }
      entry.symbol = found[0];
    }
    entry.parameters = ParsePtxParameters(ptx, entry.symbol);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> NvrtcCompiler::OptionsFor(const CompilePlan& plan) const {
  // Headers come from the request, CUDA's folders and the operator's.
  std::vector<std::string> options = {absl::StrCat("--gpu-architecture=", plan.target),
                                      absl::StrCat("--pre-include=", kNumbersHeader),
                                      absl::StrCat("-I", toolkit_.include_dir), "-default-device",
                                      "--ptxas-options=-v"};
  if (!toolkit_.cccl_dir.empty()) options.push_back(absl::StrCat("-I", toolkit_.cccl_dir));
  for (const std::string& dir : include_roots_.DirsOf(plan.include_roots)) {
    options.push_back(absl::StrCat("-I", dir));
  }
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
  return absl::StrReplaceAll(log, {{kNoFolder, ""}});
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

absl::StatusOr<std::unique_ptr<Compiler>> MakeNvrtcCompiler(const Toolkit& toolkit,
                                                            const IncludeRoots& include_roots) {
  ASSIGN_OR_RETURN(NvrtcApi nvrtc, NvrtcApi::Load(toolkit));
  ASSIGN_OR_RETURN(std::vector<std::string> targets, TargetsOf(nvrtc));
  int major = 0;
  int minor = 0;
  nvrtc.nvrtcVersion(&major, &minor);
  return std::make_unique<NvrtcCompiler>(
      nvrtc, toolkit, include_roots, std::move(targets),
      absl::StrCat("NVRTC ", major, ".", minor, toolkit.cccl_version.empty() ? "" : ", CCCL ",
                   toolkit.cccl_version));
}

absl::StatusOr<std::unique_ptr<Compiler>> MakeNvrtcCompiler(const IncludeRoots& include_roots) {
  ASSIGN_OR_RETURN(Toolkit toolkit, FindToolkit());
  return MakeNvrtcCompiler(toolkit, include_roots);
}

}  // namespace tune::cuda
