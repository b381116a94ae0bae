// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/structured_fill.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tuner/device/fill.h"
#include "tuner/narrow_floats.h"

namespace tune {
namespace {

// Random numbers in a row. Not those of the elements of other fills, whose counters begin at 0.
class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}

  // [0, bound).
  int64_t Below(int64_t bound) {
    const FillBits bits = FillPhilox(key_, counter_++);
    const uint64_t word = uint64_t{bits.first} << 32 | bits.second;
    const auto product = static_cast<unsigned __int128>(word) * static_cast<uint64_t>(bound);
    return static_cast<int64_t>(product >> 64);
  }
  // [0, 1).
  double Unit() { return static_cast<double>(Below(int64_t{1} << 53)) * 0x1p-53; }

 private:
  const uint64_t key_;
  uint64_t counter_ = uint64_t{1} << 62;
};

template <typename T>
void Append(T value, std::string& elements) {
  elements.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Adds one element after the other.
class Elements {
 public:
  explicit Elements(const BufferPlan& buffer)
      : dtype_(buffer.dtype), size_(static_cast<size_t>(SizeInBytes(buffer.dtype))) {
    bytes_.reserve(static_cast<size_t>(buffer.count) * size_);
  }

  void Add(double value) {
    switch (dtype_) {
      case DType::kF64:
        return Append(value, bytes_);
      case DType::kF32:
        return Append(static_cast<float>(value), bytes_);
      case DType::kF16:
        return Append(FloatToHalf(static_cast<float>(value)), bytes_);
      case DType::kBF16:
        return Append(FloatToBfloat16(static_cast<float>(value)), bytes_);
      case DType::kE4M3:
        return Append(FloatToE4m3(static_cast<float>(value)), bytes_);
      default:
        return AddInteger(static_cast<int64_t>(std::floor(value)));
    }
  }
  void AddInteger(int64_t value) {
    switch (dtype_) {
      case DType::kI8:
      case DType::kU8:
        return Append(static_cast<uint8_t>(value), bytes_);
      case DType::kI32:
      case DType::kU32:
        return Append(static_cast<uint32_t>(value), bytes_);
      case DType::kI64:
      case DType::kU64:
        return Append(value, bytes_);
      case DType::kI16:
      case DType::kU16:
        return Append(static_cast<uint16_t>(value), bytes_);
      case DType::kBool:
        return Append(static_cast<uint8_t>(value != 0), bytes_);
      default:
        return Add(static_cast<double>(value));
    }
  }
  void Swap(int64_t a, int64_t b) {
    char* const first = bytes_.data() + static_cast<size_t>(a) * size_;
    std::swap_ranges(first, first + size_, bytes_.data() + static_cast<size_t>(b) * size_);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  const DType dtype_;
  const size_t size_;
  std::string bytes_;
};

void Permute(const BufferPlan& buffer, Draws draws, Elements& elements) {
  for (int64_t i = 0; i < buffer.count; ++i) elements.AddInteger(i);
  for (int64_t i = buffer.count; i > 1; --i) {
    const int64_t other = draws.Below(i);
    if (other != i - 1) elements.Swap(i - 1, other);
  }
}

// Draws a value from each of as many equal parts of the range.
void Sort(const BufferPlan& buffer, Draws draws, Elements& elements) {
  const double span = buffer.fill.high - buffer.fill.low;
  for (int64_t i = 0; i < buffer.count; ++i) {
    const double part = (static_cast<double>(i) + draws.Unit()) / static_cast<double>(buffer.count);
    elements.Add(buffer.fill.low + span * part);
  }
}

void SetOneInEachRow(const BufferPlan& buffer, Draws draws, Elements& elements) {
  int64_t hot = 0;
  for (int64_t i = 0; i < buffer.count; ++i) {
    const int64_t column = i % buffer.fill.columns;
    if (column == 0) hot = draws.Below(buffer.fill.columns);
    elements.AddInteger(column == hot ? 1 : 0);
  }
}

void FillTriangle(const BufferPlan& buffer, uint64_t key, Elements& elements) {
  const Fill& fill = buffer.fill;
  const bool lower = fill.kind == Fill::Kind::kLowerTriangular;
  const auto low = static_cast<float>(fill.low);
  const auto high = static_cast<float>(fill.high);
  for (int64_t i = 0; i < buffer.count; ++i) {
    const int64_t column = i % fill.columns;
    const int64_t row = i / fill.columns % fill.rows;
    if (lower ? column > row : column < row) {
      elements.AddInteger(0);
    } else if (IsFloat(buffer.dtype)) {
      elements.Add(FillFloat(kFillNormal, low, high, key, static_cast<uint64_t>(i)));
    } else {
      elements.AddInteger(FillInteger(kFillUniform, static_cast<int64_t>(fill.low),
                                      static_cast<int64_t>(fill.high), key,
                                      static_cast<uint64_t>(i)));
    }
  }
}

// How many nonzeros each row has: between none and twice the mean of those rows that are left, no
// more than there are columns, and as many as `high` in all.
class RowLengths {
 public:
  RowLengths(const Fill& fill, Draws draws)
      : columns_(fill.columns),
        draws_(draws),
        rows_(fill.rows),
        left_(static_cast<int64_t>(fill.high)) {}

  int64_t Next() {
    // The elements that do not fit in the later rows.
    const double rest = static_cast<double>(rows_ - 1) * static_cast<double>(columns_);
    const auto least = static_cast<int64_t>(std::max(0.0, static_cast<double>(left_) - rest));
    const int64_t most = std::min(columns_, left_);
    const int64_t drawn = draws_.Below(2 * left_ / rows_ + 2);
    const int64_t length = rows_ == 1 ? left_ : std::clamp(drawn, least, most);
    left_ -= length;
    --rows_;
    return length;
  }

 private:
  const int64_t columns_;
  Draws draws_;
  int64_t rows_;  // that are left
  int64_t left_;  // nonzeros for them
};

void AddOffsets(const Fill& fill, Draws draws, Elements& elements) {
  RowLengths lengths(fill, draws);
  int64_t offset = 0;
  elements.AddInteger(offset);
  for (int64_t row = 0; row < fill.rows; ++row) elements.AddInteger(offset += lengths.Next());
}

// Draws a column from each of as many equal parts of a row.
void AddColumns(const Fill& fill, Draws draws, Elements& elements) {
  RowLengths lengths(fill, draws);
  for (int64_t row = 0; row < fill.rows; ++row) {
    const int64_t length = lengths.Next();
    for (int64_t i = 0; i < length; ++i) {
      const auto begin = static_cast<int64_t>(static_cast<__int128>(fill.columns) * i / length);
      const auto end = static_cast<int64_t>(static_cast<__int128>(fill.columns) * (i + 1) / length);
      elements.AddInteger(begin + draws.Below(end - begin));
    }
  }
}

// Adds the offsets of pieces that lie one behind the other.
void AddOffsetsOfPieces(const BufferPlan& buffer, Elements& elements) {
  const std::vector<int64_t>& lengths = buffer.fill.lengths;
  int64_t offset = 0;
  for (int64_t i = 0; i < buffer.count; ++i) {
    elements.AddInteger(offset);
    offset += lengths[static_cast<size_t>(i) % lengths.size()];
  }
}

}  // namespace

bool IsStructured(Fill::Kind kind) { return kind >= Fill::Kind::kPermutation; }

const std::string& KeyNameOf(const BufferPlan& buffer) {
  return buffer.fill.key.empty() ? buffer.name : buffer.fill.key;
}

int64_t StructuredFillSteps(const BufferPlan& buffer) {
  const bool by_rows =
      buffer.fill.kind == Fill::Kind::kCsrOffsets || buffer.fill.kind == Fill::Kind::kCsrColumns;
  return by_rows ? std::max(buffer.count, buffer.fill.rows) : buffer.count;
}

std::string StructuredElements(const BufferPlan& buffer, uint64_t key) {
  Elements elements(buffer);
  const Draws draws(key);
  switch (buffer.fill.kind) {
    case Fill::Kind::kPermutation:
      Permute(buffer, draws, elements);
      break;
    case Fill::Kind::kSorted:
      Sort(buffer, draws, elements);
      break;
    case Fill::Kind::kOneHot:
      SetOneInEachRow(buffer, draws, elements);
      break;
    case Fill::Kind::kLowerTriangular:
    case Fill::Kind::kUpperTriangular:
      FillTriangle(buffer, key, elements);
      break;
    case Fill::Kind::kCsrOffsets:
      AddOffsets(buffer.fill, draws, elements);
      break;
    case Fill::Kind::kCsrColumns:
      AddColumns(buffer.fill, draws, elements);
      break;
    case Fill::Kind::kOffsets:
      AddOffsetsOfPieces(buffer, elements);
      break;
    default:
      break;
  }
  return elements.Take();
}

}  // namespace tune
