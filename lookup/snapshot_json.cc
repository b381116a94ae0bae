// SPDX-License-Identifier: Apache-2.0
#include "lookup/snapshot_json.h"

#include "base/status_macros.h"

namespace tune::lookup {
namespace {

constexpr int64_t kSizeMax = int64_t{1} << 40;  // of a launch

int64_t SizeOf(Fields& fields, const Json& json, const char* name) {
  const int64_t size = fields.Integer(json, name);
  if (size < 0 || size > kSizeMax) fields.Fail(name);
  return size;
}

// An entry for each config of a grid.
std::vector<int64_t> SizesOf(Fields& fields, const char* name, size_t count) {
  std::vector<int64_t> sizes;
  fields.List(name, count, [&](const Json& one) { sizes.push_back(SizeOf(fields, one, name)); });
  if (sizes.size() != count) fields.Fail(name);
  return sizes;
}

absl::StatusOr<ShapeGrid::Shape> ShapeOf(const Json& json, const ShapeGrid& grid) {
  Fields fields(json, "a grid");
  ShapeGrid::Shape shape;
  fields.List("dims", kMembersMax,
              [&](const Json& one) { shape.dims.push_back(fields.Integer(one, "dims")); });
  if (shape.dims.size() != grid.axes.size()) fields.Fail("dims");
  const auto loss_of = [&](const Json& one) {
    const int64_t loss = fields.Integer(one, "losses");
    if (loss < 0 || loss > ShapeGrid::kLossMax) fields.Fail("losses");
    return static_cast<uint32_t>(loss);
  };
  shape.loss_of_unknown = loss_of(fields.Member("loss_of_unknown"));
  shape.losses.assign(grid.configs.size(), ShapeGrid::kUnknown);
  fields.List("losses", grid.configs.size(), [&](const Json& one) {
    if (!one.is_array() || one.size() != 2) return fields.Fail("losses");
    const int64_t config = fields.Integer(one[0], "losses");
    if (config < 0 || config >= static_cast<int64_t>(grid.configs.size())) {
      return fields.Fail("losses");
    }
    shape.losses[static_cast<size_t>(config)] = loss_of(one[1]);
  });
  if (grid.multiprocessors > 0) shape.blocks = SizesOf(fields, "blocks", grid.configs.size());
  RETURN_IF_ERROR(fields.status());
  return shape;
}

void ReadKey(const Json& json, TrialKey& key, std::string& dtype, Fields& fields) {
  Fields hard(json, "a record");
  key.kernel_hash = hard.Text("kernel_hash");
  key.device_name = hard.Text("device");
  key.target = hard.Text("target");
  dtype = hard.Text("dtype");
  key.cache_mode =
      hard.Text("cache_mode") == ToText(CacheMode::kWarm) ? CacheMode::kWarm : CacheMode::kCold;
  key.include_digest = TextIn(json, "include_digest");
  for (const auto& [name, value] : hard.Object("dims").items()) {
    key.problem.dims.emplace_back(name, hard.Integer(value, "dims"));
  }
  fields.Fail(hard.status());
}

}  // namespace

absl::StatusOr<Config> ReadConfig(const Json& json) {
  Config config;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean()) {
      config.entries.emplace_back(name, value.get<bool>());
    } else if (value.is_number_integer()) {
      config.entries.emplace_back(name, value.get<int64_t>());
    } else if (value.is_number()) {
      config.entries.emplace_back(name, value.get<double>());
    } else if (value.is_string()) {
      config.entries.emplace_back(name, value.get<std::string>());
    } else {
      return absl::InvalidArgumentError("a record has no usable 'config'");
    }
  }
  return config;
}

std::string KernelOfGrid(const Json& json) { return Fields(json, "a grid").Text("kernel"); }

absl::StatusOr<SnapshotGrid> ReadGrid(const Json& json) {
  Fields fields(json, "a grid");
  SnapshotGrid grid{.kernel_hash = fields.Text("kernel_hash"),
                    .target = fields.Text("target"),
                    .device = fields.Text("device"),
                    .dtype = fields.Text("dtype")};
  for (const auto& [name, value] : fields.Object("fixed").items()) {
    grid.fixed.emplace_back(name, fields.Integer(value, "fixed"));
  }
  grid.grid.axes = fields.Texts("axes");
  fields.List("configs", kGridConfigsMax * kGridShapesMax, [&](const Json& one) {
    absl::StatusOr<Config> config = ReadConfig(one);
    fields.Fail(config.status());
    if (config.ok()) grid.grid.configs.push_back(*std::move(config));
  });
  // Not in files of older daemons, nor of devices without multiprocessors.
  if (json.contains("multiprocessors")) {
    grid.grid.multiprocessors = SizeOf(fields, fields.Member("multiprocessors"), "multiprocessors");
  }
  if (grid.grid.multiprocessors > 0) {
    grid.grid.residents = SizesOf(fields, "residents", grid.grid.configs.size());
  }
  fields.List("shapes", kGridShapesMax, [&](const Json& one) {
    absl::StatusOr<ShapeGrid::Shape> shape = ShapeOf(one, grid.grid);
    fields.Fail(shape.status());
    if (shape.ok()) grid.grid.shapes.push_back(*std::move(shape));
  });
  Fields residuals(fields.Object("residuals"), "a grid");
  const bool has_count = fields.Object("residuals").contains("count");
  grid.grid.residuals = {.count = has_count ? static_cast<uint32_t>(residuals.Integer("count")) : 0,
                         .mean = residuals.Number("mean"),
                         .low = residuals.Number("low"),
                         .high = residuals.Number("high"),
                         .nearest_octaves = residuals.Number("nearest_octaves")};
  fields.Fail(residuals.status());
  RETURN_IF_ERROR(fields.status());
  SetStretch(grid.grid);
  return grid;
}

bool IsInterval(const Measurement& measured) {
  return measured.latency_ns_low <= measured.latency_ns_median &&
         measured.latency_ns_median <= measured.latency_ns_high;
}

void SetDType(const std::string& name, SnapshotRecord& record) {
  const absl::StatusOr<DType> known = ParseDType(name);
  record.dtype_is_known = known.ok();
  if (known.ok()) record.row.key.problem.dtype = *known;
}

absl::StatusOr<SnapshotRecord> ReadRecord(const Json& json) {
  Fields fields(json, "a record");
  SnapshotRecord record;
  Record& row = record.row;
  row.id = fields.Integer("id");
  row.kernel_name = fields.Text("kernel");
  std::string dtype;
  ReadKey(fields.Object("hard"), row.key, dtype, fields);
  absl::StatusOr<Config> config = ReadConfig(fields.Object("config"));
  fields.Fail(config.status());
  Fields latency(fields.Object("latency_ns"), "a record");
  Measurement& measured = row.trial.measurement;
  measured.latency_ns_median = latency.Number("median");
  measured.latency_ns_low = latency.Number("low");
  measured.latency_ns_high = latency.Number("high");
  if (!IsInterval(measured)) fields.Fail("latency_ns");
  row.published_unix_ms = fields.Integer("published_unix_ms");
  record.evidence = {fields.Text("confidence"), fields.Text("evidence")};
  fields.Fail(latency.status());
  RETURN_IF_ERROR(fields.status());
  row.trial.config = *std::move(config);
  // Not in all files.
  row.artifact = TextIn(json, "artifact");
  row.trial.resources.binary_sha256 = TextIn(json, "binary_sha256");
  const auto default_ns = json.find("default_latency_ns");
  if (default_ns != json.end() && default_ns->is_number())
    default_ns->get_to(row.default_latency_ns);
  const auto soft = json.find("soft");
  if (soft != json.end() && soft->is_object()) {
    row.key.driver = TextIn(*soft, "driver");
    row.key.compiler = TextIn(*soft, "compiler");
  }
  SetDType(dtype, record);
  return record;
}

}  // namespace tune::lookup
