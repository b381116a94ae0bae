// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/launch_sizes.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/status/statusor.h"

namespace tune {
namespace {

constexpr int64_t kEndless = 1 << 20;  // multiprocessors
constexpr int64_t kSizeMax = int64_t{1} << 40;
// Triton's: a program's threads.
constexpr char kWarps[] = "num_warps";
constexpr int64_t kWarpsByDefault = 4;
constexpr int64_t kWarp = 32;

// Adds what parses of the texts; false if one does not.
bool ParseInto(const std::vector<std::string>& texts, std::vector<Expression>& expressions) {
  for (const std::string& text : texts) {
    absl::StatusOr<Expression> parsed = Expression::Parse(text);
    if (!parsed.ok()) return false;
    expressions.push_back(*std::move(parsed));
  }
  return true;
}

bool ParseInto(const std::string& text, std::vector<Expression>& expressions) {
  return text.empty() || ParseInto(std::vector{text}, expressions);
}

// Returns nullopt if a factor or the product is not an integer from 0 to kSizeMax.
std::optional<int64_t> Product(const std::vector<Expression>& factors, const Scope& scope) {
  int64_t product = 1;
  for (const Expression& factor : factors) {
    const absl::StatusOr<int64_t> value = factor.EvaluateInteger(scope);
    if (!value.ok() || *value < 0 || *value > kSizeMax) return std::nullopt;
    if (*value > 0 && product > kSizeMax / *value) return std::nullopt;
    product *= *value;
  }
  return product;
}

int64_t ThreadsOfWarps(const Config& config) {
  for (const auto& [name, value] : config.entries) {
    const int64_t* warps = std::get_if<int64_t>(&value);
    if (name == kWarps && warps != nullptr && *warps > 0 && *warps <= kWarp) return *warps * kWarp;
  }
  return kWarpsByDefault * kWarp;
}

}  // namespace

LaunchForm::LaunchForm(const std::vector<std::pair<std::string, std::string>>& lets,
                       const std::vector<LaunchText>& steps) {
  std::vector<Step> parsed;
  for (const LaunchText& text : steps) {
    Step step;
    if (!ParseInto(text.when, step.when) || !ParseInto(text.grid, step.grid) ||
        !ParseInto(text.block, step.block) || !ParseInto(text.shared_bytes, step.shared_bytes)) {
      return;
    }
    parsed.push_back(std::move(step));
  }
  whole_.Use(parsed, lets);
  if (parsed.size() == 1) {  // there is nothing to choose among
    parsed.front().block = {*Expression::Parse("1")};
    parsed.front().shared_bytes.clear();
  }
  blocks_.Use(std::move(parsed), lets);
}

void LaunchForm::Sizes::Use(std::vector<Step> steps,
                            const std::vector<std::pair<std::string, std::string>>& lets) {
  steps_ = std::move(steps);
  const auto use_names_of = [&](const std::vector<Expression>& expressions) {
    for (const Expression& one : expressions) {
      names_.insert(one.names().begin(), one.names().end());
    }
  };
  for (const Step& step : steps_) {
    for (const auto* part : {&step.when, &step.grid, &step.block, &step.shared_bytes}) {
      use_names_of(*part);
    }
  }
  // A let may use those before it.
  for (auto let = lets.rbegin(); let != lets.rend(); ++let) {
    std::vector<Expression> value;
    if (!names_.contains(let->first) || !ParseInto(let->second, value) || value.empty()) continue;
    use_names_of(value);
    lets_.emplace_back(let->first, value.front());
  }
  std::reverse(lets_.begin(), lets_.end());
  const bool by_warps = std::any_of(steps_.begin(), steps_.end(),
                                    [](const Step& step) { return step.block.empty(); });
  if (by_warps) names_.insert(kWarps);
}

std::vector<Value> LaunchForm::Sizes::ParamsOf(const Config& config) const {
  std::vector<Value> values;
  for (const auto& [name, value] : config.entries) {
    if (names_.contains(name)) values.push_back(value);
  }
  return values;
}

LaunchSize LaunchForm::Sizes::Of(const Config& config, Scope scope) const {
  for (const auto& [name, value] : config.entries) {
    if (names_.contains(name)) scope.Set(name, value);
  }
  for (const auto& [name, expression] : lets_) {
    absl::StatusOr<Value> value = expression.Evaluate(scope);
    if (value.ok()) scope.Set(name, *std::move(value));
  }
  LaunchSize most;
  for (const Step& step : steps_) {
    if (!step.when.empty()) {
      const absl::StatusOr<bool> runs = step.when.front().EvaluateBoolean(scope);
      if (!runs.ok()) return {};
      if (!*runs) continue;
    }
    const std::optional<int64_t> blocks = Product(step.grid, scope);
    const std::optional<int64_t> threads =
        step.block.empty() ? ThreadsOfWarps(config) : Product(step.block, scope);
    const std::optional<int64_t> shared_bytes =
        step.shared_bytes.empty() ? 0 : Product(step.shared_bytes, scope);
    if (!blocks || !threads || !shared_bytes) return {};
    const LaunchSize size{*blocks, *threads, *shared_bytes};
    const auto rank = [](const LaunchSize& one) {
      const double all = static_cast<double>(one.blocks) * static_cast<double>(one.threads);
      return std::tuple(one.shared_bytes, all);
    };
    if (most.blocks == 0 || rank(size) > rank(most)) most = size;
  }
  return most;
}

LaunchSizes::LaunchSizes(std::shared_ptr<const LaunchForm> form, Scope scope)
    : form_(std::move(form)), scope_(std::move(scope)) {
  scope_.Set("sm_count", kEndless);
}

LaunchSize LaunchSizes::Known(const LaunchForm::Sizes& sizes, ByParams& known,
                              const Config& config) const {
  const auto [place, is_new] = known.try_emplace(sizes.ParamsOf(config));
  if (is_new) place->second = sizes.Of(config, scope_);
  return place->second;
}

}  // namespace tune
