// SPDX-License-Identifier: Apache-2.0
#include "client/import/script_import.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/child_process.h"
#include "nlohmann/json.hpp"

namespace tune {
namespace embedded {
extern const std::string_view import_cuda_source_py;
extern const std::string_view import_kernel_tuner_py;
extern const std::string_view import_script_import_py;
extern const std::string_view import_script_reader_py;
extern const std::string_view import_script_values_py;
extern const std::string_view import_triton_function_py;
extern const std::string_view import_triton_launch_py;
extern const std::string_view import_triton_script_py;
}  // namespace embedded

namespace client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(20);
constexpr size_t kAnswerBytesMax = 16 << 20;

// Makes modules of the texts that it is given, in order; the last is the program.
constexpr char kLoader[] =
    "import json, sys, types\n"
    "for name, text in json.loads(sys.argv.pop(1)):\n"
    "  module = sys.modules[name] = types.ModuleType(name)\n"
    "  exec(compile(text, name + '.py', 'exec'), module.__dict__)\n"
    "module.main()\n";

std::string Modules() {
  nlohmann::json modules = nlohmann::json::array();
  for (const auto& [name, text] :
       {std::pair("script_values", embedded::import_script_values_py),
        std::pair("script_reader", embedded::import_script_reader_py),
        std::pair("cuda_source", embedded::import_cuda_source_py),
        std::pair("kernel_tuner", embedded::import_kernel_tuner_py),
        std::pair("triton_function", embedded::import_triton_function_py),
        std::pair("triton_launch", embedded::import_triton_launch_py),
        std::pair("triton_script", embedded::import_triton_script_py),
        std::pair("script_import", embedded::import_script_import_py)}) {
    modules.push_back({name, text});
  }
  return modules.dump();
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

absl::StatusOr<ImportedKernel> ImportScript(const std::string& path, int call) {
  auto python = ChildProcess::Start(
      {.program = "python3",
       // Isolated: neither the environment nor the script's folder adds modules.
       .arguments = {"-I", "-c", kLoader, Modules(), path, absl::StrCat(call)},
       .timeout = kTimeout,
       .shown = absl::StrCat("reading ", path),
       .if_missing = "it reads the script's syntax (3.10 or later); install it",
       .if_late = "; is it a script of a few hundred lines?"});
  if (!python.ok()) return python.status();
  absl::StatusOr<std::string> answer = (*python)->ReadToEnd(kAnswerBytesMax);
  if (!answer.ok()) return answer.status();
  return Parse(*answer);
}

}  // namespace client
}  // namespace tune
