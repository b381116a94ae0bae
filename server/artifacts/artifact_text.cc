// SPDX-License-Identifier: Apache-2.0
#include "server/artifacts/artifact_text.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/artifacts/processor_features.h"
#include "server/state/whole_file.h"
#include "tuner/bundle.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "tunectl artifact";
constexpr int kVersion = 1;

Json ToJson(const Value& value) {
  return std::visit([](const auto& plain) { return Json(plain); }, value);
}

const char* ToJson(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kOutput:
      return "output";
    case Role::kInOut:
      return "inout";
    case Role::kScratch:
      break;
  }
  return "scratch";
}

Json ToJson(const BufferPlan& buffer) {
  return {{"kind", "buffer"},
          {"name", buffer.name},
          {"dtype", ToText(buffer.dtype)},
          {"count", buffer.count},
          {"role", ToJson(buffer.role)}};
}

Json ToJson(const ScalarPlan& scalar) {
  return {{"kind", "scalar"},
          {"name", scalar.name},
          {"dtype", ToText(scalar.dtype)},
          {"value", ToJson(scalar.value)}};
}

Json ToJson(const TensorMapPlan& map) {
  return {{"kind", "tensor_map"},
          {"name", map.name},
          {"buffer", map.buffer.name},
          {"dims", map.dims},
          {"strides_bytes", map.strides_bytes},
          {"box", map.box},
          {"swizzle_bytes", map.swizzle_bytes},
          {"l2_promotion_bytes", map.l2_promotion_bytes},
          {"nan_padding", map.nan_padding}};
}

Json ToJson(const StepPlan& step) {
  const LaunchPlan& launch = step.launch;
  Json args = Json::array();
  for (const ArgPlan& arg : step.args) {
    args.push_back(std::visit([](const auto& plan) { return ToJson(plan); }, arg));
  }
  Json zero = Json::array();
  for (const BufferPlan& buffer : step.zero) zero.push_back(ToJson(buffer));
  return {{"entry", launch.entry},
          {"unit", launch.unit},
          {"grid", launch.grid},
          {"block", launch.block},
          {"cluster", launch.cluster},
          {"shared_bytes", launch.shared_bytes},
          {"cooperative", launch.cooperative},
          {"programmatic_dependent_launch", launch.programmatic_dependent_launch},
          {"resident", launch.resident},
          {"args", std::move(args)},
          {"zero", std::move(zero)}};
}

Json ToJson(const SymbolPlan& symbol) {
  return {{"variable", symbol.variable}, {"unit", symbol.unit}, {"buffer", ToJson(symbol.buffer)}};
}

}  // namespace

absl::StatusOr<std::string> ArtifactText(const TrialKey& key, const std::string& kernel_name,
                                         const Config& config, const Program& program) {
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> binaries, Unbundle(program.binary));
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"kernel", kernel_name},
               {"kernel_hash", key.kernel_hash},
               {"target", key.target},
               {"device", key.device_name},
               {"compiler", key.compiler},
               {"dtype", ToText(key.problem.dtype)},
               {"dims", Json::object()},
               {"config", Json::object()},
               {"steps", Json::array()},
               {"symbols", Json::array()},
               {"binary_bytes", Json::array()}};
  if (ProfileOfTarget(key.target).is_host) json["processor_features"] = ProcessorFeatures();
  for (const auto& [name, value] : key.problem.dims) json["dims"][name] = value;
  for (const auto& [name, value] : config.entries) json["config"][name] = ToJson(value);
  for (const StepPlan& step : program.steps) json["steps"].push_back(ToJson(step));
  for (const SymbolPlan& symbol : program.symbols) json["symbols"].push_back(ToJson(symbol));
  for (const absl::string_view binary : binaries) json["binary_bytes"].push_back(binary.size());
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  text += "\n";
  for (const absl::string_view binary : binaries) absl::StrAppend(&text, binary);
  return text;
}

absl::Status CheckArtifactText(absl::string_view text, const std::string& digest) {
  const auto none = [](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is no artifact of version ", kVersion, ": ", why));
  };
  const std::string real = DigestOf(text);
  if (real != digest) return none(absl::StrCat("its bytes are ", real, ", not ", digest));
  const size_t line = text.find('\n');
  const Json json = Json::parse(text.substr(0, line), nullptr, /*allow_exceptions=*/false);
  if (line == absl::string_view::npos || !json.is_object())
    return none("its first line is no JSON");
  if (json.value("format", Json()) != kFormat || json.value("version", Json()) != kVersion) {
    return none("it is of another version");
  }
  const Json sizes = json.value("binary_bytes", Json());
  uint64_t bytes = line + 1;
  for (const Json& size : sizes.is_array() ? sizes : Json::array()) {
    // No sum of these overflows: each is at most the file's.
    if (!size.is_number_unsigned() || size.get<uint64_t>() > text.size()) {
      return none("its parts do not fit its size");
    }
    bytes += size.get<uint64_t>();
  }
  if (bytes != text.size()) return none("its parts do not fit its size");
  return absl::OkStatus();
}

}  // namespace tune::server
