// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/snapshot_json.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lookup/reason.h"

namespace tune::library {
namespace {

using lookup::Fields;
using lookup::kMembersMax;
using lookup::TextIn;

constexpr int64_t kVersion = 1;

absl::Status Damaged(absl::string_view why) { return absl::InvalidArgumentError(why); }

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

}  // namespace tune::library
