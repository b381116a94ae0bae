// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/arg_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/kernel/data_file.h"

namespace tune {
namespace {

constexpr int64_t kMaxOffsets = int64_t{1} << 22;  // so that sums of lengths fit 64 bits
constexpr int kFirstSmWithTensorMaps = 90;
constexpr int64_t kMaxBlock = int64_t{1} << 20;  // as Triton's largest tensor

Fill::Kind KindOf(const FillSpec& fill, DType dtype) {
  if (fill.kind != Fill::Kind{}) return fill.kind;
  return IsFloat(dtype) ? Fill::Kind::kNormal : Fill::Kind::kUniform;
}

// The largest finite number; of a type without one, infinity.
double LargestFloat(DType dtype) {
  constexpr double kLargestHalf = 65504;
  return dtype == DType::kF16 ? kLargestHalf : std::numeric_limits<double>::infinity();
}

template <class T>
std::pair<int64_t, int64_t> RangeOf() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// The least and the largest integer that an expression can give a scalar of this type.
std::pair<int64_t, int64_t> IntegerRange(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kI8:
      return RangeOf<int8_t>();
    case DType::kU8:
      return RangeOf<uint8_t>();
    case DType::kI16:
      return RangeOf<int16_t>();
    case DType::kU16:
      return RangeOf<uint16_t>();
    case DType::kI32:
      return RangeOf<int32_t>();
    case DType::kU32:
      return RangeOf<uint32_t>();
    case DType::kU64:
      return {0, std::numeric_limits<int64_t>::max()};
    default:
      return RangeOf<int64_t>();
  }
}

}  // namespace

std::string Indexed(const std::string& field, size_t index) {
  return absl::StrCat(field, "[", index, "]");
}

absl::StatusOr<BufferPlan> ArgPlanner::Buffer(size_t i) const {
  const BufferSpec& buffer = parsed_.args[i].buffer;
  BufferPlan plan;
  plan.name = spec_.args[i].name;
  plan.dtype = problem_.dtype;
  if (buffer.dtype != "dtype") {
    std::string dtype = buffer.dtype;
    if (parsed_.args[i].dtype.has_value()) {
      ASSIGN_OR_RETURN(dtype, evaluation_.Text(plan.name + ".dtype", *parsed_.args[i].dtype));
    }
    const absl::StatusOr<DType> known = ParseDType(dtype);
    if (!known.ok()) {
      return evaluation_.Error(plan.name + ".dtype", std::string(known.status().message()));
    }
    plan.dtype = *known;
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(i));
  plan.count = 1;
  for (const int64_t extent : shape) {
    if (extent > kMaxElements / plan.count) {
      return evaluation_.Error(plan.name, "the buffer has more than 2^40 elements");
    }
    plan.count *= extent;
  }
  plan.role = buffer.role;
  plan.shape = shape;
  ASSIGN_OR_RETURN(plan.fill, FillOf(i, plan, shape));
  return plan;
}

absl::StatusOr<std::vector<int64_t>> ArgPlanner::Shape(size_t i) const {
  return Sizes(absl::StrCat(spec_.args[i].name, ".shape"), parsed_.args[i].shape);
}

absl::StatusOr<Fill> ArgPlanner::FillOf(size_t i, const BufferPlan& buffer,
                                        const std::vector<int64_t>& shape) const {
  const ParsedArg& parsed = parsed_.args[i];
  const FillSpec fill = parsed.buffer.fill.value_or(FillSpec());
  Fill plan = {.kind = KindOf(fill, buffer.dtype), .low = fill.low, .high = fill.high};
  if (parsed.fill_low.has_value()) {
    ASSIGN_OR_RETURN(plan.low, evaluation_.Number(buffer.name + ".fill.low", *parsed.fill_low));
  }
  if (parsed.fill_high.has_value()) {
    ASSIGN_OR_RETURN(plan.high, evaluation_.Number(buffer.name + ".fill.high", *parsed.fill_high));
  }
  plan.columns = shape.back();
  plan.rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  if (plan.kind == Fill::Kind::kCsrOffsets || plan.kind == Fill::Kind::kCsrColumns) {
    return SparseFill(i, buffer, plan);
  }
  if (plan.kind == Fill::Kind::kOffsets) return OffsetsFill(i, buffer, plan);
  const bool ranged = parsed.fill_low.has_value() || parsed.fill_high.has_value();
  if (ranged && plan.kind == Fill::Kind::kUniform && plan.low >= plan.high) {
    return evaluation_.Error(buffer.name + ".fill",
                             absl::StrCat("low, ", plan.low, ", must be below high, ", plan.high));
  }
  const bool normal = plan.kind == Fill::Kind::kNormal ||
                      (IsFloat(buffer.dtype) && (plan.kind == Fill::Kind::kLowerTriangular ||
                                                 plan.kind == Fill::Kind::kUpperTriangular));
  if (normal && plan.high == 0) plan.high = 1;
  if (!normal && plan.low == 0 && plan.high == 0) plan.high = 1;
  return plan;
}

absl::StatusOr<Fill> ArgPlanner::OffsetsFill(size_t i, const BufferPlan& buffer, Fill plan) const {
  const std::string field = buffer.name + ".fill.lengths";
  if (IsFloat(buffer.dtype)) {
    return evaluation_.Error(buffer.name + ".fill", "offsets are integers");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> lengths,
                   evaluation_.List(field, *parsed_.args[i].fill_lengths));
  if (buffer.count > kMaxOffsets) {
    return evaluation_.Error(field, absl::StrCat("at most ", kMaxOffsets, " offsets"));
  }
  for (const Value& value : lengths) {
    const int64_t* length = std::get_if<int64_t>(&value);
    if (length == nullptr || *length < 0 || *length > kMaxElements) {
      return evaluation_.Error(
          field, absl::StrCat(ToText(value), " is no length: an integer from 0 to 2^40"));
    }
    plan.lengths.push_back(*length);
  }
  if (!plan.lengths.empty()) return plan;
  return evaluation_.Error(field, "the list is empty");
}

// Serves the offsets and the columns: both take rows and nonzeros from the offsets.
absl::StatusOr<Fill> ArgPlanner::SparseFill(size_t i, const BufferPlan& buffer, Fill plan) const {
  const std::string field = buffer.name + ".fill";
  ASSIGN_OR_RETURN(plan.columns,
                   evaluation_.Integer(field + ".columns", *parsed_.args[i].fill_columns));
  plan.key = buffer.name;
  plan.rows = buffer.count - 1;
  if (plan.kind == Fill::Kind::kCsrColumns) {
    plan.key = parsed_.args[i].buffer.fill->offsets;
    for (size_t other = 0; other < parsed_.args.size(); ++other) {
      if (spec_.args[other].name != plan.key) continue;
      ASSIGN_OR_RETURN(const BufferPlan offsets, Buffer(other));
      plan.rows = offsets.count - 1;
      plan.high = offsets.fill.high;
    }
    if (static_cast<double>(buffer.count) != plan.high) {
      return evaluation_.Error(
          field, absl::StrCat("the buffer has ", buffer.count, " elements, its offsets '", plan.key,
                              "' end with ", plan.high));
    }
  }
  const double places = static_cast<double>(plan.rows) * static_cast<double>(plan.columns);
  if (plan.rows >= 1 && plan.columns >= 1 && plan.high >= 1 && plan.high <= places &&
      plan.high == std::floor(plan.high)) {
    return plan;
  }
  return evaluation_.Error(
      field, absl::StrCat("no matrix of ", plan.rows, " rows and ", plan.columns, " columns has ",
                          plan.high, " nonzeros"));
}

absl::StatusOr<std::vector<ArgPlan>> ArgPlanner::Args(const std::vector<size_t>& indices) const {
  std::vector<ArgPlan> args;
  for (const size_t i : indices) {
    const ArgSpec& arg = spec_.args[i];
    if (arg.buffer.has_value()) {
      ASSIGN_OR_RETURN(BufferPlan buffer, BufferArg(i));
      args.emplace_back(std::move(buffer));
    } else if (arg.scalar.has_value()) {
      ASSIGN_OR_RETURN(ScalarPlan scalar, Scalar(i));
      args.emplace_back(std::move(scalar));
    } else if (traits_.sm >= kFirstSmWithTensorMaps) {
      ASSIGN_OR_RETURN(TensorMapPlan map, TensorMap(i));
      args.emplace_back(std::move(map));
    }
  }
  return args;
}

absl::StatusOr<BufferPlan> ArgPlanner::BufferArg(size_t i) const {
  ASSIGN_OR_RETURN(BufferPlan plan, Buffer(i));
  const BufferSpec& buffer = parsed_.args[i].buffer;
  if (!buffer.tensor_descriptor.has_value()) return plan;
  const std::string field = plan.name + ".tensor_descriptor.block_shape";
  ASSIGN_OR_RETURN(plan.block_shape, Sizes(field, parsed_.args[i].block_shape));
  for (const int64_t extent : plan.block_shape) {
    if ((extent & (extent - 1)) == 0 && extent <= kMaxBlock) continue;
    return evaluation_.Error(field, absl::StrCat(extent, " is no power of two up to ", kMaxBlock));
  }
  plan.nan_padding = buffer.tensor_descriptor->nan_padding;
  if (!plan.nan_padding || IsFloat(plan.dtype)) return plan;
  return evaluation_.Error(plan.name + ".tensor_descriptor.nan_padding",
                           absl::StrCat(ToText(plan.dtype), " has no NaN"));
}

// Every buffer of the spec, once.
absl::StatusOr<std::vector<BufferPlan>> ArgPlanner::Buffers() const {
  std::vector<BufferPlan> buffers;
  for (size_t i = 0; i < parsed_.args.size(); ++i) {
    const ArgSpec& arg = spec_.args[i];
    if (!arg.buffer.has_value() && !arg.symbol.has_value()) continue;
    ASSIGN_OR_RETURN(BufferPlan buffer, Buffer(i));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

absl::StatusOr<std::vector<BufferFile>> ArgPlanner::Files() const {
  std::vector<BufferFile> files;
  for (size_t i = 0; i < parsed_.args.size(); ++i) {
    const BufferSpec& buffer = parsed_.args[i].buffer;
    for (const bool expected : {false, true}) {
      const std::string& name = expected ? buffer.expected : buffer.file;
      if (name.empty()) continue;
      ASSIGN_OR_RETURN(const BufferPlan plan, Buffer(i));
      ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(i));
      const absl::StatusOr<DataFile> file =
          ReadDataFile(name, parsed_.files.at(name), plan.dtype, shape,
                       /*or_wider=*/expected && IsFloat(plan.dtype));
      if (!file.ok()) {
        return evaluation_.Error(plan.name, std::string(file.status().message()));
      }
      files.push_back({.buffer = plan.name,
                       .dtype = file->dtype,
                       .elements = std::string(file->elements),
                       .expected = expected});
    }
  }
  return files;
}

absl::StatusOr<ScalarPlan> ArgPlanner::Scalar(size_t i) const {
  const ArgSpec& arg = spec_.args[i];
  ScalarPlan plan;
  plan.name = arg.name;
  ASSIGN_OR_RETURN(plan.dtype, ParseDType(arg.scalar->dtype));
  if (IsFloat(plan.dtype)) {
    ASSIGN_OR_RETURN(const double value, evaluation_.Number(arg.name, *parsed_.args[i].value));
    if (std::abs(value) > LargestFloat(plan.dtype)) {
      return evaluation_.Error(arg.name, absl::StrCat(value, " does not fit ", arg.scalar->dtype));
    }
    plan.value = value;
    return plan;
  }
  ASSIGN_OR_RETURN(const int64_t value, evaluation_.Integer(arg.name, *parsed_.args[i].value));
  const auto [low, high] = IntegerRange(plan.dtype);
  if (value < low || value > high) {
    return evaluation_.Error(arg.name, absl::StrCat(value, " does not fit ", arg.scalar->dtype));
  }
  plan.value = value;
  return plan;
}

absl::StatusOr<std::vector<int64_t>> ArgPlanner::Sizes(
    const std::string& field, const std::vector<Expression>& expressions) const {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < expressions.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t size, evaluation_.Integer(Indexed(field, i), expressions[i]));
    if (size < 1) return evaluation_.Error(Indexed(field, i), absl::StrCat(size, " is below one"));
    sizes.push_back(size);
  }
  return sizes;
}

absl::StatusOr<TensorMapPlan> ArgPlanner::TensorMap(size_t i) const {
  const ArgSpec& arg = spec_.args[i];
  const ParsedArg& parsed = parsed_.args[i];
  TensorMapPlan plan;
  plan.name = arg.name;
  ASSIGN_OR_RETURN(plan.buffer, Buffer(*FindArg(spec_, arg.tensor_map->buffer)));
  ASSIGN_OR_RETURN(plan.dims, Sizes(arg.name + ".dims", parsed.dims));
  ASSIGN_OR_RETURN(plan.strides_bytes, Sizes(arg.name + ".strides", parsed.strides));
  ASSIGN_OR_RETURN(plan.box, Sizes(arg.name + ".box", parsed.box));
  plan.swizzle_bytes = static_cast<int>(arg.tensor_map->swizzle_bytes);
  plan.l2_promotion_bytes = static_cast<int>(arg.tensor_map->l2_promotion_bytes);
  return plan;
}

}  // namespace tune
