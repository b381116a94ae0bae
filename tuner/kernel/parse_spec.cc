// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "tuner/kernel/parsed_spec.h"
#include "tuner/kernel/spec_checker.h"
#include "tuner/kernel/spec_text.h"
#include "tuner/sha256.h"
#include "tuner/status_macros.h"

namespace tune {
namespace {

constexpr size_t kMaxTotalBytes = 1 << 20;

// Lengths keep the boundaries: moving text from one file to another changes the hash.
std::string HashOf(const v1::KernelSpec& spec, const std::map<std::string, std::string>& files) {
  const std::string canonical = CanonicalText(spec);
  std::string all = absl::StrCat(canonical.size(), "\n", canonical);
  for (const auto& [name, text] : files) {
    absl::StrAppend(&all, name.size(), " ", text.size(), "\n", name, text);
  }
  return Sha256Hex(all);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParsedSpec>> ParseSpec(
    const std::string& spec_name, const std::string& spec_text,
    const std::map<std::string, std::string>& files) {
  size_t bytes = spec_text.size();
  for (const auto& [name, text] : files) bytes += name.size() + text.size();
  if (bytes > kMaxTotalBytes) {
    return absl::InvalidArgumentError(absl::StrCat(spec_name, ": spec and files have ", bytes,
                                                   " bytes; the most is ", kMaxTotalBytes));
  }
  auto parsed = std::make_unique<ParsedSpec>();
  parsed->spec_text = spec_text;
  SpecPlace::Tree tree;
  RETURN_IF_ERROR(ParseSpecText(spec_name, spec_text, &parsed->spec, &tree));
  const SpecPlace root(spec_name, parsed->spec, &tree);
  RETURN_IF_ERROR(SpecChecker(root, files, parsed.get()).Check());
  parsed->hash = HashOf(parsed->spec, parsed->files);
  return parsed;
}

}  // namespace tune
