// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/snapshot_json.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lookup/reason.h"

namespace tune::library {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMembersMax = 512;             // of a kernel: dims, params, steps
constexpr int64_t kSizeMax = int64_t{1} << 40;  // of a launch

absl::Status Damaged(absl::string_view why) { return absl::InvalidArgumentError(why); }

// Members of an object by their kinds; what is missing or of another kind is remembered.
class Fields {
 public:
  Fields(const Json& json, const char* what) : json_(json), what_(what) {}

  const Json& Member(const char* name) {
    static const Json kNull;
    if (!json_.is_object()) return Fail(name), kNull;
    const auto found = json_.find(name);
    return found == json_.end() ? (Fail(name), kNull) : *found;
  }
  std::string Text(const char* name) {
    const Json& member = Member(name);
    return member.is_string() ? member.get<std::string>() : (Fail(name), "");
  }
  int64_t Integer(const char* name) { return Integer(Member(name), name); }
  int64_t Integer(const Json& json, const char* name) {
    const bool fits =
        json.is_number_integer() &&
        (!json.is_number_unsigned() ||
         json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    return fits ? json.get<int64_t>() : (Fail(name), 0);
  }
  double Number(const char* name) {
    const Json& member = Member(name);
    return member.is_number() ? member.get<double>() : (Fail(name), 0);
  }
  bool Boolean(const char* name) {
    const Json& member = Member(name);
    return member.is_boolean() ? member.get<bool>() : (Fail(name), false);
  }
  const Json& Object(const char* name) {
    const Json& member = Member(name);
    if (!member.is_object()) Fail(name);
    return member;
  }
  // Each element of an array, by `read(element)`.
  template <typename Read>
  void List(const char* name, size_t most, Read read) {
    const Json& member = Member(name);
    if (!member.is_array() || member.size() > most) return Fail(name);
    for (const Json& element : member) read(element);
  }
  std::vector<std::string> Texts(const char* name) {
    std::vector<std::string> texts;
    List(name, kMembersMax, [&](const Json& one) {
      if (one.is_string()) return texts.push_back(one.get<std::string>());
      Fail(name);
    });
    return texts;
  }
  void Fail(const char* name) {
    if (status_.ok()) status_ = Damaged(absl::StrCat(what_, " has no usable '", name, "'"));
  }
  void Fail(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  const char* const what_;
  absl::Status status_;
};

lookup::DimMatch MatchOf(const std::string& text) {
  for (const auto match :
       {lookup::DimMatch::kExact, lookup::DimMatch::kBucketed, lookup::DimMatch::kIgnored}) {
    if (text == lookup::ToText(match)) return match;
  }
  return lookup::DimMatch::kNearest;
}

absl::StatusOr<KernelRules::Dim> DimOf(const Json& json) {
  Fields fields(json, "a dim");
  KernelRules::Dim dim{.name = fields.Text("name"),
                       .match = MatchOf(fields.Text("match")),
                       .default_value = fields.Integer("default"),
                       .min = fields.Integer("min"),
                       .max = fields.Integer("max")};
  fields.List("on", kMembersMax, [&](const Json& one) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string()) return fields.Fail("on");
    dim.on.emplace_back(one[0].get<std::string>(), fields.Integer(one[1], "on"));
  });
  fields.List("values", kMembersMax,
              [&](const Json& one) { dim.values.push_back(fields.Integer(one, "values")); });
  RETURN_IF_ERROR(fields.status());
  return dim;
}

absl::StatusOr<KernelRules::Param> ParamOf(const Json& json) {
  Fields fields(json, "a param");
  KernelRules::Param param{.name = fields.Text("name")};
  fields.List("choices", kMembersMax, [&](const Json& one) {
    Fields choice(one, "a param");
    param.choices.push_back({choice.Text("target"), choice.Text("values"), choice.Text("default")});
    fields.Fail(choice.status());
  });
  RETURN_IF_ERROR(fields.status());
  return param;
}

absl::StatusOr<KernelRules::Step> StepOf(const Json& json) {
  Fields fields(json, "a step");
  KernelRules::Step step{.when = fields.Text("when"),
                         .grid = fields.Texts("grid"),
                         .block = fields.Texts("block"),
                         .cluster = fields.Texts("cluster"),
                         .shared_bytes = fields.Text("shared_bytes")};
  RETURN_IF_ERROR(fields.status());
  return step;
}

absl::StatusOr<Config> ConfigOf(const Json& json) {
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
      return Damaged("a record has no usable 'config'");
    }
  }
  return config;
}

int64_t SizeOf(Fields& fields, const Json& json, const char* name) {
  const int64_t size = fields.Integer(json, name);
  if (size < 0 || size > kSizeMax) fields.Fail(name);
  return size;
}

// One for each config of a grid.
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

// Empty where there is no such text.
std::string TextIn(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
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

absl::StatusOr<int64_t> ReadHeader(const Json& json) {
  Fields fields(json, "the snapshot");
  const std::string format = fields.Text("format");
  const int64_t version = fields.Integer("version");
  const int64_t number = fields.Integer("number");
  fields.Integer("published_unix_ms");
  RETURN_IF_ERROR(fields.status());
  if (format != "tunectl snapshot" || version != kVersion) {
    return Damaged(absl::StrCat("it is of version ", version, ", not ", kVersion));
  }
  return number;
}

absl::StatusOr<Target> ReadTarget(const std::string& name, const Json& json) {
  Fields fields(json, "a target");
  Target target{.name = name,
                .is_host = fields.Boolean("is_host"),
                .sm = fields.Integer("sm"),
                .sm_count = fields.Integer("sm_count"),
                .max_threads_per_block = fields.Integer("max_threads_per_block"),
                .max_shared_bytes = fields.Integer("max_shared_bytes")};
  RETURN_IF_ERROR(fields.status());
  return target;
}

absl::StatusOr<KernelRules> ReadKernel(const Json& json) {
  Fields fields(json, "a kernel");
  KernelRules kernel{.name = fields.Text("name"),
                     .hash = fields.Text("hash"),
                     .include_digest = TextIn(json, "include_digest"),
                     .on_host = fields.Boolean("on_host"),
                     .targets = fields.Texts("targets"),
                     .dtypes = fields.Texts("dtypes"),
                     .constraints = fields.Texts("constraints")};
  const auto add = [&](auto one, auto& list) {
    fields.Fail(one.status());
    if (one.ok()) list.push_back(*std::move(one));
  };
  fields.List("dims", kMembersMax, [&](const Json& one) { add(DimOf(one), kernel.dims); });
  fields.List("params", kMembersMax, [&](const Json& one) { add(ParamOf(one), kernel.params); });
  fields.List("steps", kMembersMax, [&](const Json& one) { add(StepOf(one), kernel.steps); });
  fields.List("lets", kMembersMax, [&](const Json& one) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_string()) {
      return fields.Fail("lets");
    }
    kernel.lets.emplace_back(one[0].get<std::string>(), one[1].get<std::string>());
  });
  RETURN_IF_ERROR(fields.status());
  return kernel;
}

std::string KernelOfGrid(const Json& json) { return Fields(json, "a grid").Text("kernel"); }

absl::StatusOr<Grid> ReadGrid(const Json& json) {
  Fields fields(json, "a grid");
  Grid grid{.kernel_hash = fields.Text("kernel_hash"),
            .target = fields.Text("target"),
            .device = fields.Text("device"),
            .dtype = fields.Text("dtype")};
  for (const auto& [name, value] : fields.Object("fixed").items()) {
    grid.fixed.emplace_back(name, fields.Integer(value, "fixed"));
  }
  grid.grid.axes = fields.Texts("axes");
  fields.List("configs", kGridConfigsMax * kGridShapesMax, [&](const Json& one) {
    absl::StatusOr<Config> config = ConfigOf(one);
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
  grid.grid.residuals = {.mean = residuals.Number("mean"),
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
  lookup::Record& row = record.row;
  row.id = fields.Integer("id");
  row.kernel_name = fields.Text("kernel");
  std::string dtype;
  ReadKey(fields.Object("hard"), row.key, dtype, fields);
  absl::StatusOr<Config> config = ConfigOf(fields.Object("config"));
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
  const auto soft = json.find("soft");
  if (soft != json.end() && soft->is_object()) row.key.driver = TextIn(*soft, "driver");
  SetDType(dtype, record);
  return record;
}

}  // namespace tune::library
