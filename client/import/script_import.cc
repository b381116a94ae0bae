// SPDX-License-Identifier: Apache-2.0
#include "client/import/script_import.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/child_process.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace tune {
// The modules of this folder, made by its CMakeLists.txt: names and texts by turns, then nullptr.
const std::string_view* const* ImportModules();

namespace client {
namespace {

constexpr auto kReadTimeout = std::chrono::seconds(60);
constexpr auto kRunTimeout = std::chrono::minutes(30);
constexpr size_t kAnswerBytesMax = 16 << 20;

// Imports modules from the texts that it is given, and runs main() of script_import.
constexpr char kLoader[] = R"(
import importlib.util, sys
count = int(sys.argv.pop(1))
given, sys.argv[1:] = sys.argv[1:1 + 2 * count], sys.argv[1 + 2 * count:]
texts = dict(zip(given[::2], given[1::2]))
class Texts:
  def find_spec(self, name, path=None, target=None):
    return importlib.util.spec_from_loader(name, self) if name in texts else None
  def create_module(self, spec):
    return None
  def exec_module(self, module):
    name = module.__name__
    exec(compile(texts[name], name + '.py', 'exec'), module.__dict__)
sys.meta_path.insert(0, Texts())
importlib.import_module('script_import').main()
)";

// The loader's arguments: the number of modules, and a name and a text of each. Each is an
// argument of its own, since Linux limits an argument to 128 KiB.
std::vector<std::string> Modules() {
  std::vector<std::string> texts = {""};
  for (const std::string_view* const* text = ImportModules(); *text != nullptr; ++text) {
    texts.emplace_back(**text);
  }
  texts.front() = absl::StrCat(texts.size() / 2);
  return texts;
}

absl::StatusOr<ImportedKernel> Parse(const std::string& answer) {
  const nlohmann::json json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InternalError("the script's reader gave no answer");
  if (json.contains("error")) {
    return absl::InvalidArgumentError(json.value("error", "the script was not understood"));
  }
  ImportedKernel kernel;
  kernel.name = json.at("name").get<std::string>();
  kernel.files = json.at("files").get<std::map<std::string, std::string>>();
  kernel.left = json.at("left").get<std::vector<std::string>>();
  kernel.notes = json.at("notes").get<std::vector<std::string>>();
  return kernel;
}

}  // namespace

absl::StatusOr<ImportedKernel> ImportScript(const std::string& path, int call,
                                            const ScriptRun* run) {
  // A script that is read: neither the environment nor the script's folder adds modules.
  std::vector<std::string> arguments =
      run == nullptr ? std::vector<std::string>{"-I"} : std::vector<std::string>{};
  std::vector<std::string> environment;
  if (const char* modules = std::getenv("PYTHONPATH"); run != nullptr && modules != nullptr) {
    environment.push_back(absl::StrCat("PYTHONPATH=", modules));
  }
  arguments.insert(arguments.end(), {"-c", kLoader});
  for (std::string& text : Modules()) arguments.push_back(std::move(text));
  arguments.insert(arguments.end(), {path, absl::StrCat(call)});
  if (run != nullptr) {
    arguments.push_back("--run");
    arguments.insert(arguments.end(), run->arguments.begin(), run->arguments.end());
  }
  ASSIGN_OR_RETURN(
      auto python,
      Conversation::Start({.program = "python3",
                           .arguments = std::move(arguments),
                           .environment = std::move(environment),
                           .timeout = run == nullptr ? std::chrono::milliseconds(kReadTimeout)
                                                     : std::chrono::milliseconds(kRunTimeout),
                           .shown = absl::StrCat(run == nullptr ? "reading " : "running ", path),
                           .if_missing = "it reads the script's syntax (3.10 or later); install it",
                           .if_late = run == nullptr ? "; is it a script of a few hundred lines?"
                                                     : "; does it do more than tune a kernel?"}));
  ASSIGN_OR_RETURN(std::string answer, python->ReadToEnd(kAnswerBytesMax));
  return Parse(answer);
}

}  // namespace client
}  // namespace tune
