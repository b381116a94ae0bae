// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/kernel/spec_checker.h"
#include "tuner/kernel/spec_place.h"

namespace tune {
namespace {

constexpr size_t kMaxTextBytes = 4 << 20;  // a program that makes sources may make one of a config
constexpr size_t kMaxDataBytes = 16 << 20;

// Lengths keep the boundaries: moving text from one file to another changes the hash.
std::string HashOf(const std::string& canonical, const std::map<std::string, std::string>& files) {
  std::string all = absl::StrCat(canonical.size(), "\n", canonical);
  for (const auto& [name, text] : files) {
    absl::StrAppend(&all, name.size(), " ", text.size(), "\n", name, text);
  }
  return Sha256Hex(all);
}

absl::Status TooLarge(const std::string& spec_name, const std::string& what, size_t bytes,
                      size_t most = kMaxTextBytes) {
  return absl::InvalidArgumentError(
      absl::StrCat(spec_name, ": ", what, " have ", bytes, " bytes; the most is ", most));
}

absl::Status CheckSizes(const std::string& spec_name, const ParsedSpec& parsed) {
  size_t text = parsed.spec_text.size();
  size_t data = 0;
  for (const auto& [name, bytes] : parsed.files) {
    (parsed.data_files.count(name) > 0 ? data : text) += name.size() + bytes.size();
  }
  if (text > kMaxTextBytes) return TooLarge(spec_name, "spec and files", text);
  if (data <= kMaxDataBytes) return absl::OkStatus();
  return TooLarge(spec_name, "the files that buffers hold", data, kMaxDataBytes);
}

LaunchText TextOf(const LaunchSpec& launch, const std::string& when) {
  return {.when = when,
          .grid = launch.grid,
          .block = launch.block,
          .shared_bytes = launch.shared_bytes};
}

std::shared_ptr<const LaunchForm> LaunchFormOf(const KernelSpec& spec) {
  std::vector<std::pair<std::string, std::string>> lets;
  for (const LetSpec& let : spec.lets) lets.emplace_back(let.name, let.value);
  std::vector<LaunchText> steps;
  if (spec.launch.has_value()) steps.push_back(TextOf(*spec.launch, ""));
  for (const StepSpec& step : spec.steps) steps.push_back(TextOf(*step.launch, step.when));
  return std::make_shared<const LaunchForm>(lets, steps);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParsedSpec>> ParseSpec(
    KernelSpec spec, const SpecText& text, const std::map<std::string, std::string>& files) {
  auto parsed = std::make_unique<ParsedSpec>();
  parsed->spec = std::move(spec);
  parsed->spec_text = text.text;
  const SpecPlace root(text);
  RETURN_IF_ERROR(SpecChecker(root, files, parsed.get()).Check());
  RETURN_IF_ERROR(CheckSizes(text.name, *parsed));
  parsed->fit = FitOf(parsed->steps);
  parsed->launch_form = LaunchFormOf(parsed->spec);
  parsed->hash = HashOf(text.canonical, parsed->files);
  return parsed;
}

absl::StatusOr<std::unique_ptr<ParsedSpec>> ParseRules(KernelSpec spec, const std::string& hash) {
  auto parsed = std::make_unique<ParsedSpec>();
  parsed->spec = std::move(spec);
  const SpecText no_text;
  const SpecPlace root(no_text);
  RETURN_IF_ERROR(SpecChecker(root, parsed->files, parsed.get()).CheckRules());
  parsed->fit = FitOf(parsed->steps);
  parsed->launch_form = LaunchFormOf(parsed->spec);
  parsed->hash = hash;
  return parsed;
}

}  // namespace tune
