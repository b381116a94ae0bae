// SPDX-License-Identifier: Apache-2.0
// tunectl import
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command.h"
#include "client/cli/templates.h"
#include "client/import/script_import.h"

namespace tune::client {
namespace {

struct ImportFlags {
  std::string script;
  std::string folder;
  uint32_t call = 1;
  bool run = false;
  std::vector<std::string> arguments;
};

absl::Status Import(const ImportFlags& flags) {
  if (!flags.run && !flags.arguments.empty()) {
    return absl::InvalidArgumentError(
        "arguments of the script are for --run: a script that is "
        "read has none");
  }
  const ScriptRun run = {flags.arguments};
  ASSIGN_OR_RETURN(auto kernel, ImportScript(flags.script, static_cast<int>(flags.call),
                                             flags.run ? &run : nullptr));
  const std::string folder = flags.folder.empty() ? kernel.name : flags.folder;
  RETURN_IF_ERROR(WriteNewFolder(folder, kernel.files));
  for (const auto& [name, text] : kernel.files) {
    std::printf("%s/%s\n", folder.c_str(), name.c_str());
  }
  for (const std::string& note : kernel.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  for (const std::string& left : kernel.left) {
    std::fprintf(stderr, "left to write: %s\n", left.c_str());
  }
  const std::string spec = absl::StrCat(folder, "/", kernel.name, ".textproto");
  std::fprintf(stderr, "next: tunectl kernel check %s\n", spec.c_str());
  if (kernel.left.empty()) {
    std::fprintf(stderr, "then: tunectl sweep %s --budget 30s\n", spec.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

Command ImportCommand() {
  const auto flags = std::make_shared<ImportFlags>();
  return {
      .name = "import",
      .help =
          "Make a kernel of another tuner's script: a Kernel Tuner call of tune_kernel, or a "
          "Triton function with @triton.autotune or @triton.jit. The script is read, not run, "
          "unless --run says so.\nExamples:\n"
          "  tunectl import vector_add.py\n"
          "  tunectl import convolution.py --call 2 --folder kernels/convolution\n"
          "  tunectl import --run convolution.py 4096 4096\n"
          "What is read, and what is not: docs/coming-from.md.",
      .flags = {Flag("SCRIPT", &flags->script, "Python script that tunes a kernel").Required(),
                Flag("--call", &flags->call,
                     "Which call of tune_kernel or tuned function, of several")
                    .Range(1, 1000),
                Flag("--folder", &flags->folder, "Where to write; by default the kernel's name"),
                Flag("--run", &flags->run,
                     "Run the script with the python3 in PATH, as yourself and without walls, and "
                     "take arrays, restrictions and launches as they are. Nothing is tuned or "
                     "launched. Only for scripts that you trust"),
                Flag("ARGUMENT", &flags->arguments, "Arguments of the script, with --run")},
      .run = [flags] { return Import(*flags); }};
}

}  // namespace tune::client
