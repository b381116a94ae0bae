// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/triton/triton_compiler.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tuner/device/compile_request.h"
#include "tuner/device/cubin.h"
#include "tuner/device/ptxas_log.h"
#include "tuner/device/python/python_process.h"
#include "tuner/kernel/kernel.h"

namespace tune::embedded {
extern const std::string_view triton_worker;
}

namespace tune::triton {
namespace {

using python::PythonProcess;
using python::PythonReply;
using python::TextIn;

using nlohmann::json;

// Each with its own instructions ("a") from sm_90 on, which is what Triton always compiles for.
constexpr int kArchitectures[] = {80, 86, 87, 89, 90, 100, 103, 120, 121};
constexpr int kFirstWithA = 90;
constexpr size_t kParametersMax = 256;
constexpr char kTooMany[] = "the function has too many parameters";
constexpr int64_t kPointerBytes = 8;
constexpr int64_t kTensorMapBytes = 128;

std::vector<std::string> AllTargets() {
  std::vector<std::string> targets;
  for (int architecture : kArchitectures) {
    targets.push_back(absl::StrCat("sm_", architecture));
    if (architecture >= kFirstWithA) targets.push_back(absl::StrCat("sm_", architecture, "a"));
  }
  return targets;
}

int64_t IntegerIn(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

json ArrayIn(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : json::array();
}

// The size of a type by Triton's name for it; 0 if the name is unknown.
int64_t BytesOf(const std::string& type) {
  if (type.starts_with("*")) return kPointerBytes;
  if (type.starts_with("tensordesc<")) return kTensorMapBytes;
  constexpr std::pair<const char*, int64_t> kTypes[] = {
      {"fp64", 8}, {"fp32", 4}, {"fp16", 2}, {"bf16", 2}, {"fp8e4nv", 1}, {"i1", 1},  {"i8", 1},
      {"u8", 1},   {"i16", 2},  {"u16", 2},  {"i32", 4},  {"u32", 4},     {"i64", 8}, {"u64", 8}};
  for (const auto& [name, bytes] : kTypes) {
    if (type == name) return bytes;
  }
  return 0;
}

json ArgumentsOf(const CompilePlan& plan) {
  json arguments = json::array();
  for (const ArgumentHint& hint : plan.arguments) {
    arguments.push_back({{"name", hint.name},
                         {"type", hint.type},
                         {"divisor", hint.divisor},
                         {"is_one", hint.is_one}});
  }
  return arguments;
}

// Returns nullopt if there are too many.
std::optional<std::vector<ParameterFact>> ParametersIn(const json& about) {
  const json parameters = ArrayIn(about, "parameters");
  if (parameters.size() > kParametersMax) return std::nullopt;
  std::vector<ParameterFact> facts;
  for (const json& parameter : parameters) {
    ParameterFact& fact = facts.emplace_back();
    fact.type = TextIn(parameter, "type");
    fact.name = TextIn(parameter, "name");
    fact.divisor = std::max<int64_t>(1, IntegerIn(parameter, "divisor"));
    fact.bytes = BytesOf(fact.type);
    for (const json& extent : ArrayIn(parameter, "box")) {
      fact.box.push_back(extent.is_number_integer() ? extent.get<int64_t>() : 0);
    }
    fact.swizzle_bytes = static_cast<int>(IntegerIn(parameter, "swizzle_bytes"));
  }
  return facts;
}

// "num_warps=4" as ["num_warps", "4"].
json OptionsOf(const CompilePlan& plan) {
  json options = json::array();
  for (const std::string& option : plan.options) {
    const size_t equals = option.find('=');
    const std::string value = equals == std::string::npos ? "True" : option.substr(equals + 1);
    options.push_back({option.substr(0, equals), value});
  }
  return options;
}

// A compile's message and log.
std::string LogOf(const json& about) {
  const std::string message = TextIn(about, "message");
  const std::string log = TextIn(about, "log");
  return absl::StrCat(message, message.empty() || log.empty() ? "" : "\n", log);
}

// Both compilers: a process of Python, started by the first request.
class TritonCompiler : public Compiler {
 public:
  TritonCompiler(Installation installation, std::string scratch_dir, std::string kind)
      : installation_(std::move(installation)),
        scratch_dir_(std::move(scratch_dir)),
        kind_(std::move(kind)) {}

  std::string Version() const override { return installation_.Text(); }
  std::vector<std::string> Targets() const override { return AllTargets(); }
  CompilerFiles Files() const override {
    return {.readable = installation_.readable, .programs = installation_.programs};
  }

  absl::StatusOr<std::vector<std::string>> TryWalls() override {
    if (!RunsSources()) return std::vector<std::string>();
    RETURN_IF_ERROR(EnsureProcess());
    return process_->TryWalls();
  }

  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override {
    if (const std::string why = WhyNot(plan); !why.empty()) {
      return Refused(Outcome::kInvalidConfig, why);
    }
    const auto begin = std::chrono::steady_clock::now();
    json request = {{"entry", plan.entries[0]},
                    {"sm", TargetTraitsFor(plan.target).value_or(TargetTraits()).sm},
                    {"options", OptionsOf(plan)},
                    {"arguments", ArgumentsOf(plan)}};
    AddTo(request, plan);
    RETURN_IF_ERROR(EnsureProcess());
    ASSIGN_OR_RETURN(PythonReply reply, process_->Ask(std::move(request)));
    const std::string outcome = TextIn(reply.about, "outcome");
    if (outcome == "invalid_config") return Refused(Outcome::kInvalidConfig, LogOf(reply.about));
    if (outcome != "ok") return Refused(Outcome::kCompileFailed, LogOf(reply.about));
    ASSIGN_OR_RETURN(Artifact artifact, Made(plan, std::move(reply)));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    artifact.seconds = elapsed.count();
    return artifact;
  }

 protected:
  virtual void AddTo(json& request, const CompilePlan& plan) const = 0;
  virtual absl::StatusOr<Artifact> Made(const CompilePlan& plan, PythonReply reply) const = 0;

 private:
  static std::string WhyNot(const CompilePlan& plan) {
    const std::vector<std::string> targets = AllTargets();
    if (std::find(targets.begin(), targets.end(), plan.target) == targets.end()) {
      return absl::StrCat("Triton is not asked to compile for '", plan.target,
                          "'; known: ", absl::StrJoin(targets, ", "));
    }
    if (plan.entries.size() != 1) return "a compile of Triton has one entry";
    for (const ArgumentHint& hint : plan.arguments) {
      if (BytesOf(hint.type) > 0) continue;
      return absl::StrCat("arg '", hint.name, "' is of no type for Triton: '", hint.type, "'");
    }
    return "";
  }

  bool RunsSources() const { return language() == Language::kTriton; }

  absl::Status EnsureProcess() {
    if (process_ != nullptr) return absl::OkStatus();
    const char* folder = getenv("TMPDIR");
    const std::string scratch =
        scratch_dir_.empty() ? (folder == nullptr ? "/tmp" : folder) : scratch_dir_;
    ASSIGN_OR_RETURN(
        process_, PythonProcess::Start(installation_.python, std::string(embedded::triton_worker),
                                       kind_, absl::StrCat(scratch, "/", kind_), !RunsSources()));
    return absl::OkStatus();
  }

  const Installation installation_;
  const std::string scratch_dir_;
  const std::string kind_;
  std::unique_ptr<PythonProcess> process_;
};

class FrontEnd : public TritonCompiler {
 public:
  FrontEnd(Installation installation, std::string scratch_dir)
      : TritonCompiler(std::move(installation), std::move(scratch_dir), "lower") {}
  Language language() const override { return Language::kTriton; }

 private:
  void AddTo(json& request, const CompilePlan& plan) const override {
    request["files"] = {{plan.source_name, plan.source_text}};
    for (const SourceFile& header : plan.headers) request["files"][header.name] = header.text;
    request["source_name"] = plan.source_name;
    request["constants"] = json::array();
    for (const auto& [name, value] : plan.defines) request["constants"].push_back({name, value});
  }

  absl::StatusOr<Artifact> Made(const CompilePlan& plan, PythonReply reply) const override {
    Artifact artifact;
    artifact.binary = std::move(reply.made);
    EntryFacts& entry = artifact.entries.emplace_back();
    entry.name = plan.entries[0];
    entry.parameters = ParametersIn(reply.about);
    if (!entry.parameters.has_value()) return Refused(Outcome::kCompileFailed, kTooMany);
    return artifact;
  }
};

class TtirCompiler : public TritonCompiler {
 public:
  TtirCompiler(Installation installation, std::string scratch_dir)
      : TritonCompiler(std::move(installation), std::move(scratch_dir), "compile") {}
  Language language() const override { return Language::kTtir; }

 private:
  void AddTo(json& request, const CompilePlan& plan) const override {
    request["ttir"] = plan.source_text;
  }

  absl::StatusOr<Artifact> Made(const CompilePlan& plan, PythonReply reply) const override {
    Artifact artifact;
    artifact.binary = std::move(reply.made);
    artifact.log = TextIn(reply.about, "log");
    const std::string& name = plan.entries[0];
    AddResources(ParsePtxasLog(artifact.log, name), artifact.resources);
    EntryFacts& entry = artifact.entries.emplace_back();
    entry.name = name;
    LaunchFacts& launch = entry.launch.emplace();
    launch.threads = IntegerIn(reply.about, "threads");
    launch.cluster = IntegerIn(reply.about, "cluster");
    launch.shared_bytes = IntegerIn(reply.about, "shared_bytes");
    for (const json& scratch : ArrayIn(reply.about, "scratch")) {
      launch.scratch.push_back({IntegerIn(scratch, "bytes"), IntegerIn(scratch, "alignment")});
    }
    entry.threads = launch.threads;
    entry.parameters = ParametersIn(reply.about);
    if (!entry.parameters.has_value()) return Refused(Outcome::kCompileFailed, kTooMany);
    if (const std::string why = WhyNotAsSaid(artifact); !why.empty()) {
      return Refused(Outcome::kCompileFailed, why);
    }
    DescribeBinary(artifact);
    return artifact;
  }

  static std::vector<int64_t> Sizes(const std::vector<ParameterFact>& parameters) {
    std::vector<int64_t> bytes;
    for (const ParameterFact& parameter : parameters) bytes.push_back(parameter.bytes);
    return bytes;
  }

  // The cubin's own list of parameters decides what a launch reads: it must be what is said.
  static std::string WhyNotAsSaid(const Artifact& artifact) {
    const EntryFacts& entry = artifact.entries[0];
    const auto cubin = ReadCubin("the cubin that Triton made", artifact.binary);
    if (!cubin.ok()) return std::string(cubin.status().message());
    const auto known = std::find_if(cubin->entries.begin(), cubin->entries.end(),
                                    [&](const EntryFacts& e) { return e.name == entry.name; });
    if (known == cubin->entries.end()) return absl::StrCat("the cubin has no '", entry.name, "'");
    const std::vector<int64_t> own = Sizes(*known->parameters);
    std::vector<int64_t> said = Sizes(*entry.parameters);
    said.insert(said.end(), entry.launch->scratch.size(), kPointerBytes);
    if (own == said) return "";
    return absl::StrCat(
        "the cubin's '", entry.name, "' takes parameters of ", absl::StrJoin(own, ", "),
        " bytes; by the TTIR and Triton's version they should be of ", absl::StrJoin(said, ", "));
  }
};

}  // namespace

std::unique_ptr<Compiler> MakeFrontEnd(Installation installation, std::string scratch_dir) {
  return std::make_unique<FrontEnd>(std::move(installation), std::move(scratch_dir));
}

std::unique_ptr<Compiler> MakeTtirCompiler(Installation installation, std::string scratch_dir) {
  return std::make_unique<TtirCompiler>(std::move(installation), std::move(scratch_dir));
}

}  // namespace tune::triton
