// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/data_file.h"

#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tune {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kLengthAt = 8;  // behind the magic and two bytes of version

// How NumPy calls them, less the byte order. It has no bf16 and no e4m3: arrays of them are bytes.
constexpr std::array<std::pair<absl::string_view, DType>, 14> kTypes = {{{"f8", DType::kF64},
                                                                         {"f4", DType::kF32},
                                                                         {"f2", DType::kF16},
                                                                         {"V2", DType::kBF16},
                                                                         {"V1", DType::kE4M3},
                                                                         {"i1", DType::kI8},
                                                                         {"u1", DType::kU8},
                                                                         {"i4", DType::kI32},
                                                                         {"u4", DType::kU32},
                                                                         {"i8", DType::kI64},
                                                                         {"i2", DType::kI16},
                                                                         {"u2", DType::kU16},
                                                                         {"u8", DType::kU64},
                                                                         {"b1", DType::kBool}}};

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

absl::Status Error(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

// The text behind 'key': in the header, which is a dictionary as Python prints it.
absl::string_view ValueOf(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return "";
  return absl::StripLeadingAsciiWhitespace(header.substr(at + key.size() + 3));
}

absl::StatusOr<DType> TypeIn(const std::string& name, absl::string_view header) {
  absl::string_view text = ValueOf(header, "descr");
  const bool quoted = absl::ConsumePrefix(&text, "'");
  text = text.substr(0, text.find('\''));
  const std::string whole(text);
  if (quoted && !text.empty() && (text[0] == '<' || text[0] == '|')) {
    for (const auto& [known, dtype] : kTypes) {
      if (text.substr(1) == known) return dtype;
    }
  }
  return Error(name,
               absl::StrCat("its type is '", whole,
                            "'; arrays of f64, f32, f16, i64, i32, i16, i8, u64, u32, u16, ",
                            "u8 and bool in little endian are read, bf16 as |V2, ", "e4m3 as |V1"));
}

absl::StatusOr<std::vector<int64_t>> ShapeIn(const std::string& name, absl::string_view header) {
  absl::string_view text = ValueOf(header, "shape");
  std::vector<int64_t> shape;
  const size_t close = text.find(')');
  if (!absl::ConsumePrefix(&text, "(") || close == absl::string_view::npos) {
    return Error(name, "the header of the .npy file has no shape");
  }
  for (absl::string_view length :
       absl::StrSplit(text.substr(0, close - 1), ',', absl::SkipWhitespace())) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(length, &extent)) return Error(name, "the .npy file has no such shape");
    shape.push_back(extent);
  }
  return shape;
}

// The header, which is taken off `bytes`.
absl::StatusOr<absl::string_view> TakeHeader(const std::string& name, absl::string_view& bytes) {
  const size_t digits = bytes.size() > kLengthAt && bytes[6] == 1 ? 2 : 4;
  uint64_t length = 0;
  for (size_t i = 0; i < digits && kLengthAt + i < bytes.size(); ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[kLengthAt + i])} << (8 * i);
  }
  const size_t begin = kLengthAt + digits;
  if (bytes.size() < begin || bytes.size() - begin < length) {
    return Error(name, "the .npy file is cut");
  }
  const absl::string_view header = bytes.substr(begin, length);
  bytes.remove_prefix(begin + length);
  if (!absl::StartsWith(ValueOf(header, "fortran_order"), "False")) {
    return Error(name, "it is in Fortran order: save numpy.ascontiguousarray(array)");
  }
  return header;
}

absl::Status CheckBytes(const std::string& name, const DataFile& file,
                        const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const int64_t wanted = count * SizeInBytes(file.dtype);
  if (static_cast<int64_t>(file.elements.size()) == wanted) return absl::OkStatus();
  return Error(name, absl::StrCat("it has ", file.elements.size(), " bytes of elements; ",
                                  ShapeText(shape), " of ", ToText(file.dtype), " are ", wanted));
}

}  // namespace

absl::StatusOr<DataFile> ReadDataFile(const std::string& name, absl::string_view bytes, DType dtype,
                                      const std::vector<int64_t>& shape, bool or_wider) {
  DataFile file = {.dtype = dtype, .elements = bytes};
  if (absl::StartsWith(bytes, kMagic)) {
    ASSIGN_OR_RETURN(const absl::string_view header, TakeHeader(name, file.elements));
    ASSIGN_OR_RETURN(file.dtype, TypeIn(name, header));
    ASSIGN_OR_RETURN(const std::vector<int64_t> has, ShapeIn(name, header));
    if (has != shape) {
      return Error(name, absl::StrCat("its shape is ", ShapeText(has), ", not ", ShapeText(shape),
                                      ", the buffer's"));
    }
  }
  const bool wider = or_wider && (file.dtype == DType::kF32 || file.dtype == DType::kF64);
  if (file.dtype != dtype && !wider) {
    return Error(name, absl::StrCat("its elements are ", ToText(file.dtype), ", not ",
                                    ToText(dtype), ", the buffer's"));
  }
  RETURN_IF_ERROR(CheckBytes(name, file, shape));
  return file;
}

}  // namespace tune
