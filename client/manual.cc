// SPDX-License-Identifier: Apache-2.0
#include "client/manual.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace tune::client {
namespace {

void AppendCommand(const CLI::App& command, const std::string& path, std::string& text) {
  absl::StrAppend(&text, "\n## ", path, "\n\n```\n", command.help(path), "```\n");
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
    AppendCommand(*sub, absl::StrCat(path, " ", sub->get_name()), text);
  }
}

}  // namespace

void AddManual(CLI::App& app) {
  auto markdown = std::make_shared<bool>(false);
  CLI::App* help = app.add_subcommand("help", "This manual");
  help->add_flag("--markdown", *markdown, "All commands, as docs/cli.md");
  help->callback([&app, markdown] {
    if (!*markdown) {
      std::fputs(app.help().c_str(), stdout);
      return;
    }
    std::string text =
        "# tunectl\n\nWritten by `tunectl help --markdown`; do not edit. Every reading command "
        "has\n"
        "`--json`: the messages of `proto/tune/v1`, as protobuf's JSON with the field names of "
        "the\n"
        ".proto files (64-bit integers are strings). Tables are for people and may change.\n";
    AppendCommand(app, "tunectl", text);
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace tune::client
