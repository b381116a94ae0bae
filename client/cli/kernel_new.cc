// SPDX-License-Identifier: Apache-2.0
// tunectl kernel new
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/command.h"
#include "client/cli/templates.h"

namespace tune::client {
namespace {

struct NewFlags {
  std::string name;
  std::string language = "cuda";
  std::string folder;
};

absl::Status New(const NewFlags& flags) {
  ASSIGN_OR_RETURN(auto files, NewKernelFiles(flags.name, flags.language));
  const std::string folder = flags.folder.empty() ? flags.name : flags.folder;
  RETURN_IF_ERROR(WriteNewFolder(folder, files));
  const std::string spec = absl::StrCat(folder, "/", flags.name, ".textproto");
  for (const auto& [name, text] : files) std::printf("%s/%s\n", folder.c_str(), name.c_str());
  std::fprintf(stderr, "next: tunectl sweep %s --budget 30s\n", spec.c_str());
  return absl::OkStatus();
}

}  // namespace

Command KernelNewCommand() {
  const auto flags = std::make_shared<NewFlags>();
  return {.name = "new",
          .help =
              "Write a kernel to start from: spec, source, reference and README, in a new folder.\n"
              "Examples:\n"
              "  tunectl kernel new rms-norm\n"
              "  tunectl kernel new rms-norm --language ptx --folder kernels/rms-norm",
          .flags = {Flag("NAME", &flags->name, "Name of the kernel: 'rms-norm'").Required(),
                    Flag("--language", &flags->language,
                         absl::StrCat("One of: ", absl::StrJoin(TemplateLanguages(), ", "))),
                    Flag("--folder", &flags->folder, "Where to write; by default NAME")},
          .run = [flags] { return New(*flags); }};
}

}  // namespace tune::client
