// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/narrow_floats.h"

namespace tune::library {
namespace {

constexpr int kArtifactVersion = 1;
constexpr size_t kProgramMembersMax = 4096;  // of a list

absl::Status None(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("it is no artifact: ", why));
}

template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// A number as it lies in memory; empty: of no dtype that a scalar can have.
std::string ScalarOf(const std::string& dtype, const nlohmann::json& value) {
  const double real = value.is_boolean() ? value.get<bool>() : value.get<double>();
  const int64_t integer = value.is_boolean()        ? value.get<bool>()
                          : value.is_number_float() ? static_cast<int64_t>(real)
                                                    : value.get<int64_t>();
  if (dtype == "f64") return BytesOf(real);
  if (dtype == "f32") return BytesOf(static_cast<float>(real));
  if (dtype == "i8") return BytesOf(static_cast<int8_t>(integer));
  if (dtype == "u8") return BytesOf(static_cast<uint8_t>(integer));
  if (dtype == "i32") return BytesOf(static_cast<int32_t>(integer));
  if (dtype == "u32") return BytesOf(static_cast<uint32_t>(integer));
  if (dtype == "i64") return BytesOf(integer);
  if (dtype == "i16") return BytesOf(static_cast<int16_t>(integer));
  if (dtype == "u16") return BytesOf(static_cast<uint16_t>(integer));
  if (dtype == "u64") return BytesOf(static_cast<uint64_t>(integer));
  if (dtype == "bool") return BytesOf(integer != 0);
  if (dtype == "f16") return BytesOf(FloatToHalf(static_cast<float>(real)));
  if (dtype == "bf16") return BytesOf(FloatToBfloat16(static_cast<float>(real)));
  return "";
}

// A number from 0. For another the library's exception is thrown, as for a member that is missing
// or of another kind.
template <typename T>
T Number(const nlohmann::json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > std::numeric_limits<T>::max()) {
    throw nlohmann::json::other_error::create(501, "a size is none", &json);
  }
  return json.get<T>();
}

template <typename T>
std::vector<T> Numbers(const nlohmann::json& list) {
  std::vector<T> numbers;
  for (const nlohmann::json& one : list) numbers.push_back(Number<T>(one));
  return numbers;
}

std::array<uint32_t, 3> Three(const nlohmann::json& list) {
  return {Number<uint32_t>(list.at(0)), Number<uint32_t>(list.at(1)), Number<uint32_t>(list.at(2))};
}

Program::Arg ArgOf(const nlohmann::json& json) {
  Program::Arg arg;
  json.at("name").get_to(arg.name);
  const std::string kind = json.at("kind").get<std::string>();
  if (kind == "buffer") {
    json.at("dtype").get_to(arg.dtype);
    json.at("role").get_to(arg.role);
    arg.count = Number<int64_t>(json.at("count"));
  } else if (kind == "scalar") {
    arg.kind = Program::Arg::Kind::kScalar;
    json.at("dtype").get_to(arg.dtype);
    arg.value = ScalarOf(arg.dtype, json.at("value"));
    if (arg.value.empty())
      throw nlohmann::json::other_error::create(501, "a scalar has no dtype", &json);
  } else if (kind == "tensor_map") {
    arg.kind = Program::Arg::Kind::kTensorMap;
    json.at("buffer").get_to(arg.buffer);
    arg.dims = Numbers<uint64_t>(json.at("dims"));
    arg.strides_bytes = Numbers<uint64_t>(json.at("strides_bytes"));
    arg.box = Numbers<uint64_t>(json.at("box"));
    arg.swizzle_bytes = Number<int64_t>(json.at("swizzle_bytes"));
    arg.l2_promotion_bytes = Number<int64_t>(json.at("l2_promotion_bytes"));
  } else {
    throw nlohmann::json::other_error::create(501, "an arg is of no kind", &json);
  }
  return arg;
}

std::vector<Program::Arg> ArgsOf(const nlohmann::json& list) {
  std::vector<Program::Arg> args;
  for (const nlohmann::json& one : list) args.push_back(ArgOf(one));
  return args;
}

Program::Step StepOf(const nlohmann::json& json) {
  return {.entry = json.at("entry").get<std::string>(),
          .unit = Number<size_t>(json.at("unit")),
          .grid = Three(json.at("grid")),
          .block = Three(json.at("block")),
          .cluster = Three(json.at("cluster")),
          .shared_bytes = Number<uint32_t>(json.at("shared_bytes")),
          .cooperative = json.at("cooperative").get<bool>(),
          .programmatic_dependent_launch = json.at("programmatic_dependent_launch").get<bool>(),
          .resident = json.value("resident", false),  // older daemons do not say
          .args = ArgsOf(json.at("args")),
          .zero = ArgsOf(json.at("zero"))};
}

absl::Status ReadFacts(const nlohmann::json& json, Program& program, std::vector<size_t>& sizes) {
  try {  // the library tells in no other way that a member is missing
    const int64_t version = json.at("version").get<int64_t>();
    if (json.at("format").get<std::string>() != "tunectl artifact" || version != kArtifactVersion) {
      return None(absl::StrCat("it is of version ", version, ", not ", kArtifactVersion));
    }
    for (const char* list : {"steps", "symbols", "binary_bytes"}) {
      if (json.at(list).size() > kProgramMembersMax)
        return None(absl::StrCat("it has too many ", list));
    }
    for (const nlohmann::json& one : json.at("steps")) program.steps.push_back(StepOf(one));
    for (const nlohmann::json& one : json.at("symbols")) {
      program.symbols.push_back({.variable = one.at("variable").get<std::string>(),
                                 .unit = Number<size_t>(one.at("unit")),
                                 .buffer = ArgOf(one.at("buffer"))});
    }
    sizes = Numbers<size_t>(json.at("binary_bytes"));
  } catch (const nlohmann::json::exception& error) {
    return None(error.what());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> ParseProgram(const std::string& file) {
  const size_t line = file.find('\n');
  if (line == std::string::npos) return None("it has no first line");
  const nlohmann::json json =
      nlohmann::json::parse(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(line), nullptr,
                            /*allow_exceptions=*/false);
  if (json.is_discarded()) return None("its first line is no JSON");
  Program program;
  std::vector<size_t> sizes;
  RETURN_IF_ERROR(ReadFacts(json, program, sizes));
  size_t at = line + 1;
  for (const size_t size : sizes) {
    if (size > file.size() - at) return None("its parts do not fit its size");
    program.binaries.push_back(file.substr(at, size));
    at += size;
  }
  const auto is_there = [&](const auto& one) { return one.unit < sizes.size(); };
  const bool whole = at == file.size() && !program.steps.empty() &&
                     std::all_of(program.steps.begin(), program.steps.end(), is_there) &&
                     std::all_of(program.symbols.begin(), program.symbols.end(), is_there);
  if (!whole) return None("its parts do not fit its size");
  return program;
}

}  // namespace tune::library
