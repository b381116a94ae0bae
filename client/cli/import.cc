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
        "the script's arguments need --run: without it the script is only read");
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
          "Convert a script of Kernel Tuner (tune_kernel) or Triton (@triton.autotune, "
          "@triton.jit) to a kernel",
      .examples = {"tunectl import vector_add.py",
                   "tunectl import convolution.py --call 2 --folder kernels/convolution",
                   "tunectl import --run convolution.py 4096 4096"},
      .notes =
          "The script is read, not run, unless --run is given. What is read, and what is "
          "not: docs/coming-from.md.",
      .flags = {Flag("SCRIPT", &flags->script, "Python script that tunes a kernel").Required(),
                Flag("--call", &flags->call, "Number of the tune_kernel call or tuned function")
                    .Range(1, 1000),
                Flag("--folder", &flags->folder, "Folder to write; by default the kernel's name"),
                Flag("--run", &flags->run,
                     "Run the script with the python3 in PATH, as yourself and without walls, and "
                     "take its arrays, restrictions and launches. It tunes and launches nothing. "
                     "Only for scripts that you trust"),
                Flag("ARGUMENT", &flags->arguments, "Arguments of the script, with --run")},
      .run = [flags] { return Import(*flags); }};
}

}  // namespace tune::client
