// SPDX-License-Identifier: Apache-2.0
// tunectl import
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/templates.h"
#include "client/import/script_import.h"

namespace tune::client {
namespace {

struct ImportFlags {
  std::string script;
  std::string folder;
  int call = 1;
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
  auto kernel = ImportScript(flags.script, flags.call, flags.run ? &run : nullptr);
  if (!kernel.ok()) return kernel.status();
  const std::string folder = flags.folder.empty() ? kernel->name : flags.folder;
  if (absl::Status written = WriteNewFolder(folder, kernel->files); !written.ok()) return written;
  for (const auto& [name, text] : kernel->files) {
    std::printf("%s/%s\n", folder.c_str(), name.c_str());
  }
  for (const std::string& note : kernel->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  for (const std::string& left : kernel->left) {
    std::fprintf(stderr, "left to write: %s\n", left.c_str());
  }
  const std::string spec = absl::StrCat(folder, "/", kernel->name, ".textproto");
  std::fprintf(stderr, "next: tunectl kernel check %s\n", spec.c_str());
  if (kernel->left.empty()) {
    std::fprintf(stderr, "then: tunectl sweep %s --budget 30s\n", spec.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddImport(CLI::App& app, Session& session) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* import = app.add_subcommand(
      "import",
      "Make a kernel of another tuner's script: a Kernel Tuner call of tune_kernel, or a Triton "
      "function with @triton.autotune or @triton.jit. The script is read, not run, unless --run "
      "says so.\nExamples:\n"
      "  tunectl import vector_add.py\n"
      "  tunectl import convolution.py --call 2 --folder kernels/convolution\n"
      "  tunectl import --run convolution.py 4096 4096\n"
      "What is read, and what is not: docs/coming-from.md.");
  import->add_option("SCRIPT", flags->script, "Python script that tunes a kernel")->required();
  import
      ->add_option("--call", flags->call, "Which call of tune_kernel or tuned function, of several")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  import->add_option("--folder", flags->folder, "Where to write; by default the kernel's name");
  import->add_flag("--run", flags->run,
                   "Run the script with the python3 in PATH, as yourself and without walls, and "
                   "take arrays, restrictions and launches as they are. Nothing is tuned or "
                   "launched. Only for scripts that you trust");
  import->add_option("ARGUMENT", flags->arguments, "Arguments of the script, with --run");
  import->callback([&session, flags] { session.Finish(Import(*flags));
});
}  // namespace tune::client

}  // namespace tune::client
