// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/cpu_compiler.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "tuner/compile_options.h"
#include "tuner/device/compile_request.h"
#include "tuner/device/cpu/kernel_facts.h"
#include "tuner/device/cpu/prelude_folder.h"
#include "tuner/device/cpu/scratch_folder.h"
#include "tuner/device/cpu/shared_arrays.h"
#include "tuner/device/cpu/shared_guards.h"
#include "tuner/device/cpu/subprocess.h"
#include "tuner/device_profile.h"
#include "tuner/source/constructs.h"
#include "tuner/source/entry_name.h"
#include "tuner/source/source_functions.h"
#include "tuner/source/source_macros.h"

namespace tune::cpu {
namespace {

#if defined(__x86_64__)
constexpr char kNative[] = "-march=native";
#else
constexpr char kNative[] = "-mcpu=native";
#endif

// Precompiling the prelude takes as long as it then saves in about three compiles.
constexpr int kCompilesBeforePrecompiling = 2;

// A name that stays inside the folder it is written to.
bool IsInnerPath(const std::string& name) {
  if (name.empty() || name.size() > 200 || name[0] == '/' || name[0] == '-') return false;
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return name.find_first_of("\\\"\n\r\0", 0, 5) == std::string::npos;
}

// The directive with which the text makes the assembler do more than assemble, or empty. A compiler
// writes none of them: they come from the kernel, say by the name of a section with a line break in
// it, put together by macros where the source cannot show it. With the first two it would read any
// file, with the others it could spell the first two.
std::string ForbiddenDirective(const std::string& assembly) {
  const std::string lower = absl::AsciiStrToLower(assembly);  // as the assembler reads them
  for (const char* word :
       {".incbin", ".include", ".macro", ".irp", ".irpc", ".rept", ".rep", ".altmacro", ".mri"}) {
    const size_t size = strlen(word);
    for (size_t at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1)) {
      const char next = at + size < lower.size() ? lower[at + size] : ' ';
      if (!absl::ascii_isalnum(static_cast<unsigned char>(next)) && next != '_') return word;
    }
  }
  return "";
}

class CpuCompiler : public Compiler {
 public:
  CpuCompiler(const IncludeRoots& include_roots, std::string program, std::string version,
              bool is_gcc, bool sanitize)
      : include_roots_(include_roots),
        program_(std::move(program)),
        version_(std::move(version)),
        is_gcc_(is_gcc),
        sanitize_(sanitize) {}

  std::string Version() const override { return version_; }
  std::vector<std::string> Targets() const override { return {"cpu"}; }
  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override;

 private:
  absl::StatusOr<Artifact> CompileIn(const ScratchFolder& folder, const CompilePlan& plan);
  // Returns a folder to compile in. The first compile creates its parent.
  absl::StatusOr<std::unique_ptr<ScratchFolder>> FolderForCompile();
  std::vector<std::string> CommonArguments() const;
  std::vector<std::string> CompileArguments(const CompilePlan& plan) const;
  std::vector<std::string> LinkArguments() const;

  const IncludeRoots include_roots_;
  const std::string program_;
  const std::string version_;
  const bool is_gcc_;
  const bool sanitize_;
  std::unique_ptr<PreludeFolder> prelude_;
  int compiles_ = 0;
};

// Checks the request before the compiler sees it. Returns the error; empty if there is none.
std::string WhyNotForCpu(const CompilePlan& plan) {
  if (!ProfileOfTarget(plan.target).is_host) {
    return absl::StrCat("this compiler compiles for 'cpu', not for '", plan.target, "'");
  }
  if (!IsInnerPath(plan.source_name)) {
    return absl::StrCat("the source cannot be called '", plan.source_name, "'");
  }
  for (const SourceFile& header : plan.headers) {
    if (!IsInnerPath(header.name)) {
      return absl::StrCat("a header cannot be called '", header.name, "'");
    }
  }
  return WhyNotAllowed(plan);
}

// Defined after the prelude and the system's headers: a parameter may be called T.
std::string DefinesText(const CompilePlan& plan) {
  std::string text;
  for (const auto& [name, value] : plan.defines) {
    // The empty line is for a value that ends in a backslash.
    absl::StrAppend(&text, "#define ", name, " ", value, "\n\n");
  }
  return text;
}

// Compilers name it in their messages.
std::string EntryName(const CompilePlan& plan, const std::string& entry) {
  return absl::StrCat("kernel ", entry, " of ", plan.source_name);
}

// The symbol of an entry in the binary: its own name if that is a C identifier.
std::string SymbolOf(const CompilePlan& plan, size_t entry) {
  const std::string& name = plan.entries[entry];
  return IsPlainIdentifier(name) ? name : absl::StrCat("instance_", entry);
}

std::string PointerTo(size_t symbol) { return absl::StrCat("tune_cpu_symbol_", symbol); }

// The text that is appended to the source.
std::string EntriesText(const CompilePlan& plan) {
  std::string text = absl::StrCat(SymbolChecks(plan), "\nTUNE_CPU_ARTIFACT()");
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    absl::StrAppend(&text, "\n#line 1 \"", EntryName(plan, plan.entries[i]), "\"\nTUNE_CPU_ENTRY(",
                    SymbolOf(plan, i), ", ", plan.entries[i], ")\n");
  }
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const std::string& variable = plan.symbols[i].variable;
    absl::StrAppend(&text, "\n#line 1 \"symbol ", variable, " of ", plan.source_name,
                    "\"\nTUNE_CPU_SYMBOL(", PointerTo(i), ", ", variable, ")\n");
  }
  return text;
}

absl::Status WriteSources(const ScratchFolder& folder, const CompilePlan& plan) {
  RETURN_IF_ERROR(folder.Write("defines.h", DefinesText(plan)));
  for (const SourceFile& header : plan.headers) {
    RETURN_IF_ERROR(
        folder.Write(absl::StrCat("source/", header.name), RewriteSharedArrays(header.text)));
  }
  return folder.Write(absl::StrCat("source/", plan.source_name),
                      RewriteSharedArrays(plan.source_text) + EntriesText(plan));
}

// Explains an error in our own text: the source compiles, and an entry cannot be used.
std::string EntryNote(const CompilePlan& plan, const std::string& log) {
  const size_t error = log.find("error:");
  const size_t line = error == std::string::npos ? error : log.rfind('\n', error);
  const size_t begin = line == std::string::npos ? 0 : line + 1;
  for (const std::string& entry : plan.entries) {
    const std::string ours = absl::StrCat(EntryName(plan, entry), ":");
    if (error == std::string::npos || log.compare(begin, ours.size(), ours) != 0) continue;
    return absl::StrCat(PlaceOf(plan, EntryOf(plan, entry)), ": '", entry,
                        "' is not there as a kernel once the source is preprocessed for this "
                        "target and config:\n");
  }
  return "";
}

// For the prelude and kernels alike.
std::vector<std::string> CpuCompiler::CommonArguments() const {
  // Floating point as on a GPU: products are fused into sums, nothing is reassociated (unless a
  // kernel asks for it by `#pragma omp simd reduction`), and neither errno nor traps are observed.
  // CUDA code reads memory by other types than it was written by.
  std::vector<std::string> arguments = {program_,
                                        "-std=c++20",
                                        kNative,
                                        "-ffp-contract=fast",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-fno-strict-aliasing",
                                        "-fopenmp-simd",
                                        "-fPIC",
                                        "-fvisibility=hidden",
                                        "-pthread",
                                        "-w",
                                        "-fdiagnostics-color=never"};
  if (is_gcc_) {
    arguments.push_back("-fno-gnu-unique");  // or it could not be unloaded
    // On AArch64, or a shared array would be addressed by where its front zone begins.
    arguments.push_back("-fno-section-anchors");
  }
  if (sanitize_) {
    for (const char* option : {"-O1", "-g", "-fno-omit-frame-pointer",
                               "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}) {
      arguments.push_back(option);
    }
  } else {
    arguments.push_back("-O3");
  }
  return arguments;
}

std::vector<std::string> CpuCompiler::CompileArguments(const CompilePlan& plan) const {
  std::vector<std::string> arguments = CommonArguments();
  if (std::count(plan.options.begin(), plan.options.end(), kNoAsserts) != 0) {
    arguments.push_back(kNoAsserts);
  }
  // A header of the request is found last, so that one called math.h does not take the place of the
  // system's in the prelude.
  for (const char* option : {"-x", "c++", "-iquote", ".", "-I", "../../shims", "-idirafter", ".",
                             "-include", "../../prelude/prelude.h", "-include", "../defines.h",
                             "-include", "../../shims/assert.h", "-S", "-o", "../kernel.s"}) {
    arguments.push_back(option);
  }
  for (const std::string& dir : include_roots_.DirsOf(plan.include_roots)) {
    arguments.insert(arguments.end(), {"-idirafter", dir});
  }
  arguments.push_back(plan.source_name);
  return arguments;
}

std::vector<std::string> CpuCompiler::LinkArguments() const {
  std::vector<std::string> arguments = {program_, "-shared", "-fPIC", "-pthread"};
  // A source can give its sections the names by which a linker hands them back to the compiler.
  if (is_gcc_) arguments.push_back("-fno-use-linker-plugin");
  if (sanitize_) {
    arguments.push_back("-fsanitize=address,undefined");
  } else {
    arguments.push_back("-Wl,-z,defs");  // what has no body is found now, not when it is loaded
  }
  for (const char* option : {"-o", "../kernel.so", "../kernel.s"}) arguments.push_back(option);
  return arguments;
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> CpuCompiler::FolderForCompile() {
  if (!prelude_) {
    ASSIGN_OR_RETURN(prelude_, PreludeFolder::Make());
  }
  if (++compiles_ == kCompilesBeforePrecompiling + 1 && is_gcc_) {
    prelude_->Precompile(CommonArguments());
  }
  return prelude_->ForCompile();
}

absl::StatusOr<Artifact> CpuCompiler::CompileIn(const ScratchFolder& folder,
                                                const CompilePlan& plan) {
  RETURN_IF_ERROR(WriteSources(folder, plan));
  // Run beside the source, so that messages name files as the request does.
  const std::string beside = absl::StrCat(folder.path(), "/source");
  ASSIGN_OR_RETURN(ChildResult compiled, RunProgram(CompileArguments(plan), beside));
  if (compiled.exit_code != 0) {
    std::string note = WhyNotOnHost(compiled.output);
    if (note.empty()) note = EntryNote(plan, compiled.output);
    if (note.empty()) note = MacroInTheWay(plan, compiled.output);
    return Refused(Outcome::kCompileFailed, absl::StrCat(note, compiled.output));
  }
  const std::string assembly = folder.Read("kernel.s");
  if (const std::string word = ForbiddenDirective(assembly); !word.empty()) {
    return Refused(Outcome::kInvalidConfig,
                   absl::StrCat(plan.source_name, ": the assembler would read '", word,
                                "', which a kernel may not contain, not even in a text"));
  }
  RETURN_IF_ERROR(folder.Write("kernel.s", AddSharedGuards(assembly)));
  ASSIGN_OR_RETURN(ChildResult linked, RunProgram(LinkArguments(), beside));
  Artifact artifact;
  artifact.log = absl::StrCat(compiled.output, linked.output);
  if (linked.exit_code != 0) return Refused(Outcome::kCompileFailed, artifact.log);
  artifact.binary = folder.Read("kernel.so");
  if (artifact.binary.empty()) {
    return absl::UnavailableError(absl::StrCat(program_, " left no shared object"));
  }
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const std::string symbol = SymbolOf(plan, i);
    artifact.entries.push_back({.name = plan.entries[i],
                                .parameters = ReadParameterFacts(artifact.binary, symbol),
                                .symbol = symbol});
  }
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    artifact.symbols.push_back({.variable = plan.symbols[i].variable, .symbol = PointerTo(i)});
  }
  DescribeBinary(artifact);
  return artifact;
}

absl::StatusOr<Artifact> CpuCompiler::Compile(const CompilePlan& plan) {
  if (std::string why = WhyNotForCpu(plan); !why.empty()) {
    return Refused(Outcome::kInvalidConfig, std::move(why));
  }
  if (const absl::Status known = include_roots_.Check(plan.include_roots); !known.ok()) {
    return Refused(Outcome::kInvalidConfig, std::string(known.message()));
  }
  if (std::string why = WhyNoKernel(plan); !why.empty()) {
    return Refused(Outcome::kCompileFailed, std::move(why));
  }
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(std::unique_ptr<ScratchFolder> folder, FolderForCompile());
  ASSIGN_OR_RETURN(Artifact artifact, CompileIn(*folder, plan));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  artifact.seconds = elapsed.count();
  return artifact;
}

// Empty if there is none.
std::string FindProgram(const std::string& name) {
  if (absl::StrContains(name, '/')) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = getenv("PATH");
  for (absl::string_view dir : absl::StrSplit(path == nullptr ? "/usr/bin" : path, ':')) {
    if (dir.empty() || dir[0] != '/') continue;
    std::string program = absl::StrCat(dir, "/", name);
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

absl::StatusOr<std::string> FindCompiler() {
  const char* chosen = getenv("TUNE_CXX");
  if (chosen != nullptr && *chosen != '\0') {
    std::string program = FindProgram(chosen);
    if (!program.empty()) return program;
    return absl::FailedPreconditionError(
        absl::StrCat("TUNE_CXX is '", chosen, "', which is no program"));
  }
  for (const char* name : {"c++", "g++", "clang++"}) {
    std::string program = FindProgram(name);
    if (!program.empty()) return program;
  }
  return absl::FailedPreconditionError(
      "the CPU device needs a C++20 compiler: none of c++, g++ and clang++ is on the PATH; "
      "install one (apt-get install g++, dnf install gcc-c++), or name it in TUNE_CXX");
}

absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(ChildResult result, RunProgram(arguments, "/"));
  if (result.exit_code == 0) return std::move(result.output);
  return absl::FailedPreconditionError(
      absl::StrCat("'", absl::StrJoin(arguments, " "), "' failed: ", result.output));
}

// "c++ (Debian 12.2.0-14) 12.2.0" is "g++ 12.2.0", "Debian clang version 14.0.6" "clang++ 14.0.6".
std::string ShortVersion(const std::string& output, bool is_gcc) {
  const std::string line = output.substr(0, output.find('\n'));
  std::string number = "unknown";
  for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const size_t end = word.find_first_not_of("0123456789.");
    const absl::string_view digits = word.substr(0, end);
    if (absl::StrContains(digits, '.') && digits[0] != '.') number = std::string(digits);
  }
  return absl::StrCat(is_gcc ? "g++ " : "clang++ ", number);
}

// The meaning of -march=native on this CPU: its name, if the compiler has one, and a digest of the
// compiler's macros, so that code for one CPU is never taken for another's.
std::string CpuName(const std::string& macros) {
  std::vector<std::string> lines = absl::StrSplit(macros, '\n');
  std::sort(lines.begin(), lines.end());
  std::string name = "native";
  for (const std::string& line : lines) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "#define __tune_") && absl::ConsumeSuffix(&rest, "__ 1")) {
      name = std::string(rest);
    }
  }
  return absl::StrCat(name, "-", Sha256Hex(absl::StrJoin(lines, "\n")).substr(0, 8));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler(const IncludeRoots& include_roots) {
  ASSIGN_OR_RETURN(std::string program, FindCompiler());
  ASSIGN_OR_RETURN(std::string version, OutputOf({program, "--version"}));
  ASSIGN_OR_RETURN(std::string macros, OutputOf({program, kNative, "-std=c++20", "-x", "c++", "-dM",
                                                 "-E", "/dev/null"}));
  const bool is_gcc = !absl::StrContains(macros, "#define __clang__");
  const char* wanted = getenv("TUNE_CPU_SANITIZE");
  const bool sanitize = wanted != nullptr && absl::string_view(wanted) == "1";
  return std::make_unique<CpuCompiler>(include_roots, program,
                                       absl::StrCat(ShortVersion(version, is_gcc), " ",
                                                    CpuName(macros), sanitize ? " sanitized" : ""),
                                       is_gcc, sanitize);
}

}  // namespace tune::cpu
