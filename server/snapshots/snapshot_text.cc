// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_text.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "lookup/reason.h"
#include "server/records/record_convert.h"
#include "tuner/device_profile.h"
#include "tuner/trial.h"

namespace tune::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "tunectl snapshot";
constexpr int kVersion = 1;
// The least size of a record's line, by which a snapshot that cannot fit is refused before it is
// made.
constexpr size_t kLineBytesMin = 400;

std::string Line(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json ToJson(const Config& config) {
  Json json = Json::object();
  for (const auto& [name, value] : config.entries) {
    std::visit([&, &key = name](const auto& plain) { json[key] = plain; }, value);
  }
  return json;
}

Json ToJson(const DimSpec& dim) {
  Json on = Json::array();
  for (const DimOnTarget& other : dim.on) on.push_back({other.target, other.default_value});
  return {{"name", dim.name},
          {"match", lookup::ToText(dim.match)},
          {"default", dim.default_value},
          {"on", std::move(on)},
          {"default_dim", dim.default_dim},
          {"optional", dim.optional},
          {"min", dim.min},
          {"max", MaxOf(dim)},
          {"values", dim.values}};
}

// The choices of a param, the first that fits a target counts.
Json ToJson(const ParamSpec& param) {
  Json choices = Json::array();
  const auto add = [&](const std::string& target, const std::string& values,
                       const std::string& default_value) {
    choices.push_back({{"target", target}, {"values", values}, {"default", default_value}});
  };
  for (const ParamOnTarget& on : param.on) {
    add(on.target, on.values.empty() ? param.values : on.values,
        on.default_value.empty() ? param.default_value : on.default_value);
  }
  add("*", param.values, param.default_value);
  return {{"name", param.name}, {"choices", std::move(choices)}};
}

Json ToJson(const LaunchSpec& launch, const std::string& when) {
  return {{"when", when},
          {"grid", launch.grid},
          {"block", launch.block},
          {"cluster", launch.cluster},
          {"shared_bytes", launch.shared_bytes}};
}

const char* NameOf(Role role) {
  switch (role) {
    case Role::kOutput:
      return "output";
    case Role::kInOut:
      return "inout";
    case Role::kScratch:
      return "scratch";
    default:
      return "input";
  }
}

// Adds the dims and strides of a tensor map if one of them uses strides of arrays. Those that do
// not are null: they stay as they were compiled.
void AddStrides(const KernelSpec& spec, const TensorMapSpec& map, Json& json) {
  bool any = false;
  const auto expressions = [&](const std::vector<std::string>& texts) {
    Json list = Json::array();
    for (const std::string& text : texts) {
      const bool uses = UsesStrides(spec, text);
      list.push_back(uses ? Json(text) : Json());
      any |= uses;
    }
    return list;
  };
  Json dims = expressions(map.dims);
  Json strides = expressions(map.strides);
  if (any) json.update({{"dims", std::move(dims)}, {"strides", std::move(strides)}});
}

// An arg of a launch, with the shape that a caller's array has, and what a launch works out of the
// strides of the arrays. Callers do not pass scratch, integer scalars and tensor maps.
Json ToJson(const KernelSpec& spec, const ArgSpec& arg) {
  Json json = {{"name", arg.name}};
  if (arg.buffer.has_value()) {
    const BufferSpec& buffer = *arg.buffer;
    json.update({{"kind", "buffer"},
                 {"dtype", buffer.dtype},
                 {"shape", buffer.shape},
                 {"role", NameOf(buffer.role)}});
    if (buffer.strided) json["strided"] = true;
    if (!buffer.used_if.empty()) json["used_if"] = buffer.used_if;
  } else if (arg.symbol.has_value()) {
    json.update({{"kind", "symbol"}, {"dtype", arg.symbol->dtype}, {"shape", arg.symbol->shape}});
  } else {
    json["kind"] = arg.scalar.has_value() ? "scalar" : "tensor_map";
    if (arg.scalar.has_value() && UsesStrides(spec, arg.scalar->value)) {
      json.update({{"dtype", arg.scalar->dtype}, {"value", arg.scalar->value}});
    }
    if (arg.tensor_map.has_value()) AddStrides(spec, *arg.tensor_map, json);
  }
  return json;
}

// The parts of a kernel that decide which config answers for a problem: how its dims match, and
// which configs are valid.
Json ToJson(const std::string& name, const Kernel& kernel, const std::string& include_digest) {
  const KernelSpec& spec = kernel.spec();
  Json json = {{"name", name}, {"hash", kernel.hash()}};
  if (!include_digest.empty()) json["include_digest"] = include_digest;
  json.update({{"on_host", TraitsOf(kernel.language()).on_host},
               {"targets", spec.targets},
               {"dtypes", spec.dtypes}});
  for (const char* list : {"dims", "params", "lets", "constraints", "args", "steps"}) {
    json[list] = Json::array();
  }
  for (const DimSpec& dim : spec.dims) json["dims"].push_back(ToJson(dim));
  for (const ParamSpec& param : spec.params) json["params"].push_back(ToJson(param));
  for (const LetSpec& let : spec.lets) json["lets"].push_back({let.name, let.value});
  for (const ConstraintSpec& constraint : spec.constraints) {
    json["constraints"].push_back(constraint.expression);
  }
  for (const ArgSpec& arg : spec.args) json["args"].push_back(ToJson(spec, arg));
  if (spec.steps.empty()) json["steps"].push_back(ToJson(*spec.launch, ""));
  for (const StepSpec& step : spec.steps) {
    json["steps"].push_back(ToJson(*step.launch, step.when));
  }
  return json;
}

// The traits of a target, whichever device has it. The number of this host's processors is left
// out.
Json ToJson(const TargetTraits& traits) {
  return {{"is_host", ProfileOfTarget(traits.target).is_host},
          {"sm", traits.sm},
          {"sm_count", ProfileOfTarget(traits.target).is_host ? 1 : traits.sm_count},
          {"max_threads_per_block", traits.max_threads_per_block},
          {"max_shared_bytes", traits.max_shared_bytes}};
}

Json TargetsOf(const std::vector<lookup::RecordPtr>& records) {
  const std::vector<std::string> named = NamedGpuTargets();
  std::set<std::string> targets(named.begin(), named.end());
  for (const DeviceProfile* profile : DeviceProfiles()) {
    targets.insert(profile->common_targets.begin(), profile->common_targets.end());
  }
  for (const lookup::RecordPtr& record : records) targets.insert(record->key.target);
  Json json = Json::object();
  for (const std::string& target : targets) {
    const absl::StatusOr<TargetTraits> traits = TargetTraitsFor(target);
    if (traits.ok()) json[target] = ToJson(*traits);
  }
  return json;
}

// How far the figures can be believed.
const char* ConfidenceOf(const lookup::Record& record) {
  if (TooNoisyToTell(record.trial.measurement)) return "noisy";
  return record.tie_count > 0 ? "tied" : "confirmed";
}

Json ToJson(const lookup::Record& record) {
  const TrialKey& key = record.key;
  const Measurement& measured = record.trial.measurement;
  Json dims = Json::object();
  for (const auto& [name, value] : key.problem.dims) dims[name] = value;
  Json hard = {{"kernel_hash", key.kernel_hash},
               {"target", key.target},
               {"device", key.device_name},
               {"dtype", ToText(key.problem.dtype)},
               {"dims", std::move(dims)},
               {"cache_mode", key.cache_mode == CacheMode::kWarm ? "warm" : "cold"}};
  if (!key.include_digest.empty()) hard["include_digest"] = key.include_digest;
  return {{"id", record.id},
          {"kernel", record.kernel_name},
          {"hard", std::move(hard)},
          {"soft", {{"driver", key.driver}, {"compiler", key.compiler}}},
          {"config", ToJson(record.trial.config)},
          {"confidence", ConfidenceOf(record)},
          {"latency_ns",
           {{"median", measured.latency_ns_median},
            {"low", measured.latency_ns_low},
            {"high", measured.latency_ns_high}}},
          {"default_latency_ns", record.default_latency_ns},
          {"published_unix_ms", record.published_unix_ms},
          {"binary_sha256", record.trial.resources.binary_sha256},
          {"artifact", record.artifact},
          {"evidence", absl::StrCat("sha256:", Sha256Hex(ToProto(record).SerializeAsString()))}};
}

// The losses of configs at a shape, if they are known, and the blocks of each config, if they are
// known.
Json ToJson(const ShapeGrid::Shape& shape) {
  Json losses = Json::array();
  for (size_t config = 0; config < shape.losses.size(); ++config) {
    if (shape.losses[config] == ShapeGrid::kUnknown) continue;
    losses.push_back({config, shape.losses[config]});
  }
  Json json = {{"dims", shape.dims},
               {"loss_of_unknown", shape.loss_of_unknown},
               {"losses", std::move(losses)}};
  if (!shape.blocks.empty()) json["blocks"] = shape.blocks;
  return json;
}

// The grid that answers for a problem between tuned shapes.
Json ToJson(const DeviceGrid& grid) {
  Json fixed = Json::object();
  for (const auto& [name, value] : grid.fixed) fixed[name] = value;
  Json configs = Json::array();
  for (const Config& config : grid.grid.configs) configs.push_back(ToJson(config));
  Json shapes = Json::array();
  for (const ShapeGrid::Shape& shape : grid.grid.shapes) shapes.push_back(ToJson(shape));
  const Residuals& residuals = grid.grid.residuals;
  Json json = {{"kernel", grid.kernel_name},  {"kernel_hash", grid.kernel_hash},
               {"target", grid.target},       {"device", grid.device_name},
               {"dtype", ToText(grid.dtype)}, {"fixed", std::move(fixed)},
               {"axes", grid.grid.axes},      {"configs", std::move(configs)}};
  if (grid.grid.multiprocessors > 0) {
    json["multiprocessors"] = grid.grid.multiprocessors;
    json["residents"] = grid.grid.residents;
  }
  json["shapes"] = std::move(shapes);
  json["residuals"] = {{"count", residuals.count},
                       {"mean", residuals.mean},
                       {"low", residuals.low},
                       {"high", residuals.high},
                       {"nearest_octaves", residuals.nearest_octaves}};
  return json;
}

// By kernel and key, so that two snapshots can be compared line by line.
void Sort(std::vector<lookup::RecordPtr>& records) {
  const auto key = [](const lookup::RecordPtr& record) {
    const TrialKey& of = record->key;
    return std::tuple(absl::string_view(record->kernel_name), absl::string_view(of.kernel_hash),
                      absl::string_view(of.target), absl::string_view(of.device_name),
                      ToText(of.problem), of.cache_mode, absl::string_view(of.include_digest));
  };
  std::sort(records.begin(), records.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

absl::Status TooLong(size_t bytes_max) {
  return absl::ResourceExhaustedError(
      absl::StrCat("a snapshot of these records has more than ", bytes_max >> 20, " MiB"));
}

// A JSON array, one element on a line.
class Lines {
 public:
  Lines(std::string& text, size_t bytes_max) : text_(text), bytes_max_(bytes_max) { text_ += "["; }
  // RESOURCE_EXHAUSTED: the text is too long.
  absl::Status Add(const Json& json) {
    absl::StrAppend(&text_, first_ ? "\n" : ",\n", Line(json));
    first_ = false;
    return text_.size() <= bytes_max_ ? absl::OkStatus() : TooLong(bytes_max_);
  }
  void End() { text_ += first_ ? "]" : "\n]"; }

 private:
  std::string& text_;
  const size_t bytes_max_;
  bool first_ = true;
};

// The entries of the vault, if it has some. They come before the kernels, where readers that know
// of none pass over them.
absl::Status AddVault(const std::vector<VaultEntry>& vault, size_t bytes_max, std::string& text) {
  if (vault.empty()) return absl::OkStatus();
  text += ",\n\"vault\":";
  Lines lines(text, bytes_max);
  for (const VaultEntry& entry : vault) {
    RETURN_IF_ERROR(lines.Add({{"tuner", entry.tuner},
                               {"key", entry.key},
                               {"value", entry.value},
                               {"stored_unix_ms", entry.stored_unix_ms}}));
  }
  lines.End();
  return absl::OkStatus();
}

absl::Status NoSnapshot(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("this is no snapshot of version ", kVersion, ": ", why));
}

}  // namespace

absl::StatusOr<std::string> SnapshotText(const Knowledge& knowledge, size_t bytes_max,
                                         const std::vector<VaultEntry>& vault) {
  if (knowledge.index->record_count() > bytes_max / kLineBytesMin) return TooLong(bytes_max);
  std::vector<lookup::RecordPtr> records = knowledge.index->Records();
  // The newest is the first.
  Json header = {{"format", kFormat},
                 {"version", kVersion},
                 {"number", knowledge.index->snapshot_id()},
                 {"published_unix_ms", records.empty() ? 0 : records.front()->published_unix_ms},
                 {"record_count", records.size()}};
  std::string text = Line(header);
  text.back() = ',';
  absl::StrAppend(&text, "\n\"targets\":", Line(TargetsOf(records)));
  RETURN_IF_ERROR(AddVault(vault, bytes_max, text));
  text += ",\n\"kernels\":";
  Lines kernels(text, bytes_max);
  for (const auto& [name, kernel] : *knowledge.kernels) {
    const lookup::KernelPolicy policy =
        PolicyOf(name, *kernel, IncludeDigestOf(*kernel, *knowledge.include_roots));
    RETURN_IF_ERROR(kernels.Add(ToJson(name, *kernel, policy.include_digest)));
  }
  kernels.End();
  text += ",\n\"records\":";
  Sort(records);
  Lines lines(text, bytes_max);
  for (const lookup::RecordPtr& record : records) RETURN_IF_ERROR(lines.Add(ToJson(*record)));
  lines.End();
  text += ",\n\"grids\":";
  Lines grids(text, bytes_max);
  for (const std::shared_ptr<const DeviceGrid>& grid : knowledge.grids->All()) {
    RETURN_IF_ERROR(grids.Add(ToJson(*grid)));
  }
  grids.End();
  text += "}\n";
  return text;
}

absl::StatusOr<SnapshotHeader> ParseSnapshotHeader(absl::string_view first_line) {
  if (!absl::ConsumeSuffix(&first_line, ",")) return NoSnapshot("its first line is no header");
  const auto json = nlohmann::json::parse(absl::StrCat(first_line, "}"), nullptr,
                                          /*allow_exceptions=*/false);
  const auto integer = [&](const char* name) -> std::optional<int64_t> {
    if (!json.is_object() || !json.contains(name) || !json[name].is_number_integer()) {
      return std::nullopt;
    }
    return json[name].get<int64_t>();
  };
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) {
    return NoSnapshot("its first line is no header");
  }
  if (integer("version") != kVersion) return NoSnapshot("it is of another version");
  const auto number = integer("number");
  const auto published = integer("published_unix_ms");
  const auto count = integer("record_count");
  if (!number || !published || !count || *number < 0 || *published < 0 || *count < 0) {
    return NoSnapshot("its header lacks a field");
  }
  return SnapshotHeader{*number, *published, static_cast<uint64_t>(*count)};
}

absl::Status CheckSnapshotText(absl::string_view text) {
  RETURN_IF_ERROR(ParseSnapshotHeader(text.substr(0, text.find('\n'))).status());
  if (!nlohmann::json::accept(text.begin(), text.end())) return NoSnapshot("it is no JSON");
  return absl::OkStatus();
}

}  // namespace tune::server
