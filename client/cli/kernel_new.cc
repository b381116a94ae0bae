// SPDX-License-Identifier: Apache-2.0
// tunectl kernel new
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/templates.h"

namespace tune::client {
namespace {

struct NewFlags {
  std::string name;
  std::string language = "cuda";
  std::string folder;
};

absl::Status New(const NewFlags& flags) {
  auto files = NewKernelFiles(flags.name, flags.language);
  if (!files.ok()) return files.status();
  const std::string folder = flags.folder.empty() ? flags.name : flags.folder;
  if (absl::Status written = WriteNewFolder(folder, *files); !written.ok()) return written;
  const std::string spec = absl::StrCat(folder, "/", flags.name, ".textproto");
  for (const auto& [name, text] : *files) std::printf("%s/%s\n", folder.c_str(), name.c_str());
  std::fprintf(stderr, "next: tunectl sweep %s --budget 30s\n", spec.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddKernelNew(CLI::App& kernel, Session& session) {
  auto flags = std::make_shared<NewFlags>();
  CLI::App* command = kernel.add_subcommand(
      "new",
      "Write a kernel to start from: spec, source, reference and README, in a new folder.\n"
      "Examples:\n"
      "  tunectl kernel new rms-norm\n"
      "  tunectl kernel new rms-norm --language ptx --folder kernels/rms-norm");
  command->add_option("NAME", flags->name, "Name of the kernel: 'rms-norm'")->required();
  command
      ->add_option("--language", flags->language,
                   absl::StrCat("One of: ", absl::StrJoin(TemplateLanguages(), ", ")))
      ->capture_default_str();
  command->add_option("--folder", flags->folder, "Where to write; by default NAME");
  command->callback([&session, flags] { session.Finish(New(*flags)); });
}

}  // namespace tune::client
