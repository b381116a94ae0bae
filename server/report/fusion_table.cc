// SPDX-License-Identifier: Apache-2.0
#include "server/report/fusion_table.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {
namespace {

constexpr size_t kTextBytesMax = 256 * 1024;
constexpr int kPartsMax = 64;
constexpr int kFusionsMax = 32;
constexpr int kSequenceMax = 16;
constexpr int kNestingMax = 16;

class FirstMistake : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) {
      text_ = absl::StrCat("fusions.textproto:", line + 1, ":", column + 1, ": ", message);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status TooMany(const char* what, int count, int most) {
  return absl::InvalidArgumentError(
      absl::StrCat("the table of fusions has ", count, " ", what, "; at most ", most));
}

absl::Status CheckCounts(const v1::FusionTable& table) {
  if (table.parts_size() > kPartsMax) return TooMany("parts", table.parts_size(), kPartsMax);
  if (table.sizes_size() > kPartsMax) return TooMany("sizes", table.sizes_size(), kPartsMax);
  if (table.fusions_size() > kFusionsMax) {
    return TooMany("fusions", table.fusions_size(), kFusionsMax);
  }
  for (const v1::Fusion& fusion : table.fusions()) {
    if (fusion.sequence_size() > kSequenceMax) {
      return TooMany("kernels in a sequence", fusion.sequence_size(), kSequenceMax);
    }
    if (fusion.sequence().empty() || !fusion.has_fused()) {
      return absl::InvalidArgumentError(
          absl::StrCat("fusion '", fusion.name(), "': a fused kernel and its sequence are needed"));
    }
  }
  return absl::OkStatus();
}

int64_t DefaultOf(const v1::Dim& size, const std::string& target) {
  for (const v1::DimOn& on : size.on()) {
    if (MatchesTarget(on.target(), target)) return on.default_value();
  }
  return size.default_value();
}

std::string NameOf(const v1::FusionPart& part) {
  return part.name().empty() ? part.kernel() : part.name();
}

}  // namespace

absl::StatusOr<v1::FusionTable> ParseFusionTable(const std::string& text) {
  if (text.size() > kTextBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the table of fusions has ", text.size(), " bytes; at most ", kTextBytesMax));
  }
  FirstMistake mistake;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistake);
  parser.SetRecursionLimit(kNestingMax);
  v1::FusionTable table;
  if (!parser.ParseFromString(text, &table)) {
    return absl::InvalidArgumentError(
        mistake.text().empty() ? "fusions.textproto:1:1: not a table of fusions" : mistake.text());
  }
  // Text that is not UTF-8 could be parsed but never be sent.
  if (!v1::FusionTable().ParseFromString(table.SerializeAsString())) {
    return absl::InvalidArgumentError("fusions.textproto:1:1: a string is not UTF-8");
  }
  RETURN_IF_ERROR(CheckCounts(table));
  return table;
}

absl::StatusOr<std::map<std::string, int64_t>> SizesOf(
    const v1::FusionTable& table, const std::string& target,
    const std::map<std::string, int64_t>& given) {
  std::map<std::string, int64_t> sizes;
  for (const v1::Dim& size : table.sizes()) sizes[size.name()] = DefaultOf(size, target);
  for (const auto& [name, value] : given) {
    const auto known = sizes.find(name);
    if (known == sizes.end()) {
      std::string names;
      for (const v1::Dim& size : table.sizes()) absl::StrAppend(&names, " ", size.name());
      return absl::InvalidArgumentError(
          absl::StrCat("the table of fusions has no size '", name, "'; it has:", names));
    }
    if (value < 1) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; at least 1"));
    }
    known->second = value;
  }
  return sizes;
}

FusionResolver::FusionResolver(const v1::FusionTable& table,
                               const std::map<std::string, int64_t>& sizes,
                               const Catalogue& catalogue, const DeviceChoice& device)
    : table_(table), catalogue_(catalogue), device_(device) {
  for (const auto& [name, value] : sizes) scope_.Set(name, value);
}

absl::StatusOr<double> FusionResolver::Times(const std::string& where,
                                             const std::string& expression) const {
  if (expression.empty()) return 1;
  const auto explain = [&](const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": times: ", status.message()));
  };
  absl::StatusOr<Expression> parsed = Expression::Parse(expression);
  if (!parsed.ok()) return explain(parsed.status());
  absl::StatusOr<double> times = parsed->EvaluateNumber(scope_);
  if (!times.ok()) return explain(times.status());
  if (*times < 0) return explain(absl::InvalidArgumentError("a number below zero"));
  return times;
}

absl::StatusOr<FusedKernel> FusionResolver::Resolve(const v1::FusionPart& part) const {
  FusedKernel kernel = {.name = NameOf(part)};
  const std::string where = absl::StrCat("'", kernel.name, "' of the table of fusions");
  ASSIGN_OR_RETURN(kernel.times, Times(where, part.times()));
  Dims dims;
  for (const auto& [name, text] : part.dims()) {
    absl::StatusOr<Expression> parsed = Expression::Parse(text);
    absl::StatusOr<int64_t> value =
        parsed.ok() ? parsed->EvaluateInteger(scope_) : absl::StatusOr<int64_t>(parsed.status());
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", name, ": ", value.status().message()));
    }
    dims[name] = *value;
  }
  ASSIGN_OR_RETURN(NamedKernel named, catalogue_.Find(part.kernel()));
  absl::StatusOr<Workload> workload =
      ResolveWorkload(std::move(named), dims, table_.dtype(), device_);
  if (!workload.ok()) {
    return absl::Status(workload.status().code(),
                        absl::StrCat(where, ": ", workload.status().message()));
  }
  kernel.workload = *std::move(workload);
  return kernel;
}

}  // namespace tune::server
