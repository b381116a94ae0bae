// SPDX-License-Identifier: Apache-2.0
#include "client/import/script_import.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/child_process.h"
#include "nlohmann/json.hpp"

namespace tune {
namespace embedded {
extern const std::string_view import_cuda_source_py;
extern const std::string_view import_kernel_tuner_options_py;
extern const std::string_view import_kernel_tuner_py;
extern const std::string_view import_kernel_tuner_run_py;
extern const std::string_view import_kernel_tuner_spec_py;
extern const std::string_view import_restriction_py;
extern const std::string_view import_script_calls_py;
extern const std::string_view import_script_import_py;
extern const std::string_view import_script_modules_py;
extern const std::string_view import_script_objects_py;
extern const std::string_view import_script_reader_py;
extern const std::string_view import_script_run_py;
extern const std::string_view import_script_values_py;
extern const std::string_view import_spec_text_py;
extern const std::string_view import_triton_configs_py;
extern const std::string_view import_triton_expressions_py;
extern const std::string_view import_triton_function_py;
extern const std::string_view import_triton_hooks_py;
extern const std::string_view import_triton_host_py;
extern const std::string_view import_triton_launch_py;
extern const std::string_view import_triton_run_py;
extern const std::string_view import_triton_script_py;
extern const std::string_view import_triton_tensors_py;
extern const std::string_view import_triton_values_py;
}  // namespace embedded

namespace client {
namespace {

constexpr auto kReadTimeout = std::chrono::seconds(60);
constexpr auto kRunTimeout = std::chrono::minutes(30);
constexpr size_t kAnswerBytesMax = 16 << 20;

// Imports a module from the texts that it is given, whatever their order; the last is the program.
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
importlib.import_module(given[-2]).main()
)";

// Each an argument of its own: one has at most 128 KiB on Linux.
std::vector<std::string> Modules() {
  const std::vector<std::pair<std::string_view, std::string_view>> modules = {
      std::pair("script_values", embedded::import_script_values_py),
      std::pair("cuda_source", embedded::import_cuda_source_py),
      std::pair("script_objects", embedded::import_script_objects_py),
      std::pair("script_modules", embedded::import_script_modules_py),
      std::pair("script_calls", embedded::import_script_calls_py),
      std::pair("script_reader", embedded::import_script_reader_py),
      std::pair("restriction", embedded::import_restriction_py),
      std::pair("spec_text", embedded::import_spec_text_py),
      std::pair("kernel_tuner_spec", embedded::import_kernel_tuner_spec_py),
      std::pair("kernel_tuner_options", embedded::import_kernel_tuner_options_py),
      std::pair("kernel_tuner", embedded::import_kernel_tuner_py),
      std::pair("triton_function", embedded::import_triton_function_py),
      std::pair("triton_values", embedded::import_triton_values_py),
      std::pair("triton_hooks", embedded::import_triton_hooks_py),
      std::pair("triton_tensors", embedded::import_triton_tensors_py),
      std::pair("triton_expressions", embedded::import_triton_expressions_py),
      std::pair("triton_host", embedded::import_triton_host_py),
      std::pair("triton_configs", embedded::import_triton_configs_py),
      std::pair("triton_run", embedded::import_triton_run_py),
      std::pair("triton_launch", embedded::import_triton_launch_py),
      std::pair("triton_script", embedded::import_triton_script_py),
      std::pair("script_run", embedded::import_script_run_py),
      std::pair("kernel_tuner_run", embedded::import_kernel_tuner_run_py),
      std::pair("script_import", embedded::import_script_import_py)};
  std::vector<std::string> texts = {absl::StrCat(modules.size())};
  for (const auto& [name, text] : modules) {
    texts.emplace_back(name);
    texts.emplace_back(text);
  }
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
  auto python =
      ChildProcess::Start({.program = "python3",
                           .arguments = std::move(arguments),
                           .environment = std::move(environment),
                           .timeout = run == nullptr ? std::chrono::milliseconds(kReadTimeout)
                                                     : std::chrono::milliseconds(kRunTimeout),
                           .shown = absl::StrCat(run == nullptr ? "reading " : "running ", path),
                           .if_missing = "it reads the script's syntax (3.10 or later); install it",
                           .if_late = run == nullptr ? "; is it a script of a few hundred lines?"
                                                     : "; does it do more than tune a kernel?"});
  if (!python.ok()) return python.status();
  absl::StatusOr<std::string> answer = (*python)->ReadToEnd(kAnswerBytesMax);
  if (!answer.ok()) return answer.status();
  return Parse(*answer);
}

}  // namespace client
}  // namespace tune
