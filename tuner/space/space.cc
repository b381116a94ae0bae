// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/space.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "tuner/space/solver.h"
#include "tuner/status_macros.h"

namespace tune {
namespace {

// Some ten seconds of search.
constexpr uint64_t kMaxSteps = 500'000'000;
constexpr uint64_t kMaxDiagnosisSteps = 10'000'000;
// 256 MiB of rows.
constexpr uint64_t kMaxDigits = uint64_t{1} << 27;

absl::Status NothingLeft(const CompiledSpace& space) {
  // The first constraint with which nothing is left: fewer constraints never leave less.
  const SolveLimits limits = {.rows = 1, .steps = kMaxDiagnosisSteps, .first_only = true};
  auto is_empty = [&](size_t constraint_count) {
    absl::StatusOr<std::vector<Component>> components = Solve(space, constraint_count, limits);
    return components.ok() && !components->empty() && components->back().count == 0;
  };
  size_t some_left = 0;
  size_t none_left = space.texts.size();
  while (none_left - some_left > 1) {
    const size_t middle = some_left + (none_left - some_left) / 2;
    (is_empty(middle) ? none_left : some_left) = middle;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no config is valid: constraint ", space.texts[none_left - 1], " rejects every one",
      none_left > 1 ? " that the constraints before it allow" : ""));
}

// Every combination of the components' assignments, as rows of `width` digits.
std::vector<uint16_t> Combine(const std::vector<Component>& components, size_t width,
                              uint64_t total) {
  std::vector<uint16_t> rows(total * width);
  uint64_t inner = total;
  for (const Component& component : components) {
    inner /= component.count;
    const size_t component_width = component.params.size();
    uint64_t row = 0;
    while (row < total) {
      for (uint64_t assignment = 0; assignment < component.count; ++assignment) {
        const uint16_t* digits = &component.rows[assignment * component_width];
        for (uint64_t i = 0; i < inner; ++i, ++row) {
          for (size_t j = 0; j < component_width; ++j) {
            rows[row * width + component.params[j]] = digits[j];
          }
        }
      }
    }
  }
  return rows;
}

bool IsSorted(const std::vector<uint16_t>& rows, size_t width) {
  for (size_t at = width; at < rows.size(); at += width) {
    if (!std::lexicographical_compare(&rows[at - width], &rows[at], &rows[at], &rows[at] + width)) {
      return false;
    }
  }
  return true;
}

// Sorts rows by their digits, the first most significant: a counting sort for each digit, the last
// first.
std::vector<uint16_t> Sorted(std::vector<uint16_t> rows, const std::vector<SpaceParam>& params) {
  const size_t width = params.size();
  if (IsSorted(rows, width)) return rows;
  std::vector<uint32_t> order(rows.size() / width);
  std::vector<uint32_t> next(order.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t param = width; param-- > 0;) {
    if (params[param].values.size() == 1) continue;
    std::vector<uint32_t> starts(params[param].values.size() + 1, 0);
    for (uint32_t row : order) ++starts[rows[row * width + param] + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (uint32_t row : order) next[starts[rows[row * width + param]]++] = row;
    order.swap(next);
  }
  std::vector<uint16_t> sorted;
  sorted.reserve(rows.size());
  for (uint32_t row : order) {
    sorted.insert(sorted.end(), &rows[row * width], &rows[row * width] + width);
  }
  return sorted;
}

}  // namespace

absl::StatusOr<Space> Space::Build(const SpaceDefinition& definition, uint64_t limit) {
  limit = std::min(limit, kMaxDigits / std::max<size_t>(definition.params.size(), 1));
  ASSIGN_OR_RETURN(CompiledSpace compiled, CompileSpace(definition));
  const size_t constraint_count = definition.constraints.size();
  ASSIGN_OR_RETURN(std::vector<Component> components,
                   Solve(compiled, constraint_count, {.rows = limit, .steps = kMaxSteps}));
  uint64_t total = 1;
  for (const Component& component : components) {
    if (component.count == 0) return NothingLeft(compiled);
    if (total > limit / component.count) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are more than ", limit,
                       " valid configs: add constraints or give the ", "params fewer values"));
    }
    total *= component.count;
  }
  Space space;
  space.size_ = total;
  space.params_ = definition.params;
  space.rows_ = Sorted(Combine(components, space.params_.size(), total), space.params_);
  return space;
}

absl::StatusOr<Space> Space::FromRows(std::vector<SpaceParam> params, std::vector<uint16_t> rows) {
  const size_t width = params.size();
  if (width == 0 || rows.empty() || rows.size() % width != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows.size(), " digits are no rows of ", width, " params"));
  }
  for (size_t at = 0; at < rows.size(); ++at) {
    if (rows[at] >= params[at % width].values.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("param '", params[at % width].name, "' has no digit ", rows[at]));
    }
  }
  for (size_t at = width; at < rows.size(); at += width) {
    if (!std::lexicographical_compare(&rows[at - width], &rows[at], &rows[at], &rows[at] + width)) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", at / width, " is not after the one before it"));
    }
  }
  Space space;
  space.size_ = rows.size() / width;
  space.params_ = std::move(params);
  space.rows_ = std::move(rows);
  return space;
}

Config Space::At(uint64_t index) const {
  Config config;
  const uint16_t* row = rows_.data() + index * params_.size();
  for (size_t i = 0; i < params_.size(); ++i) {
    config.entries.emplace_back(params_[i].name, params_[i].values[row[i]]);
  }
  return config;
}

void Space::DigitsAt(uint64_t index, absl::Span<uint16_t> digits) const {
  std::copy_n(rows_.data() + index * params_.size(), params_.size(), digits.data());
}

std::vector<uint16_t> Space::DigitsAt(uint64_t index) const {
  std::vector<uint16_t> digits(params_.size());
  DigitsAt(index, absl::MakeSpan(digits));
  return digits;
}

std::optional<uint64_t> Space::IndexOf(const Config& config) const {
  if (config.entries.size() != params_.size()) return std::nullopt;
  std::vector<uint16_t> digits;
  for (size_t i = 0; i < params_.size(); ++i) {
    const SpaceParam& param = params_[i];
    const auto& [name, value] = config.entries[i];
    const auto it = std::find(param.values.begin(), param.values.end(), value);
    if (name != param.name || it == param.values.end()) return std::nullopt;
    digits.push_back(static_cast<uint16_t>(it - param.values.begin()));
  }
  return IndexOfDigits(digits);
}

std::optional<uint64_t> Space::IndexOfDigits(absl::Span<const uint16_t> digits) const {
  if (digits.size() != params_.size()) return std::nullopt;
  uint64_t low = 0;
  uint64_t high = size_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const uint16_t* row = rows_.data() + middle * params_.size();
    if (std::lexicographical_compare(row, row + params_.size(), digits.begin(), digits.end())) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const uint16_t* row = rows_.data() + low * params_.size();
  if (low == size_ || !std::equal(digits.begin(), digits.end(), row)) return std::nullopt;
  return low;
}

void Space::Neighbours(uint64_t index, Neighbourhood neighbourhood,
                       std::vector<uint64_t>& out) const {
  out.clear();
  absl::InlinedVector<uint16_t, 32> digits(params_.size());
  DigitsAt(index, absl::MakeSpan(digits));
  for (size_t param = 0; param < params_.size(); ++param) {
    const uint16_t own = digits[param];
    for (size_t digit = 0; digit < radix(param); ++digit) {
      const bool adjacent = digit + 1 == own || digit == own + size_t{1};
      if (digit == own || (neighbourhood == Neighbourhood::kAdjacent && !adjacent)) continue;
      digits[param] = static_cast<uint16_t>(digit);
      if (const std::optional<uint64_t> found = IndexOfDigits(digits)) out.push_back(*found);
    }
    digits[param] = own;
  }
}

}  // namespace tune
