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

constexpr int64_t kSnapshotVersion = 1;

lookup::DimMatch MatchOf(const std::string& text) {
  for (const auto match :
       {lookup::DimMatch::kExact, lookup::DimMatch::kBucketed, lookup::DimMatch::kIgnored}) {
    if (text == lookup::ToText(match)) return match;
  }
  return lookup::DimMatch::kNearest;
}

absl::StatusOr<DimSpec> DimOf(const Json& json) {
  Fields fields(json, "a dim");
  DimSpec dim{.name = fields.Text("name"),
              .default_value = fields.Integer("default"),
              .min = fields.Integer("min"),
              .max = fields.Integer("max"),
              .match = MatchOf(fields.Text("match"))};
  fields.List("on", kMembersMax, [&](const Json& one) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string()) return fields.Fail("on");
    dim.on.push_back({one[0].get<std::string>(), fields.Integer(one[1], "on")});
  });
  fields.List("values", kMembersMax,
              [&](const Json& one) { dim.values.push_back(fields.Integer(one, "values")); });
  // Older daemons do not write it.
  if (json.contains("default_dim")) dim.default_dim = fields.Text("default_dim");
  RETURN_IF_ERROR(fields.status());
  return dim;
}

absl::StatusOr<ParamSpec> ParamOf(const Json& json) {
  Fields fields(json, "a param");
  ParamSpec param{.name = fields.Text("name")};
  fields.List("choices", kMembersMax, [&](const Json& one) {
    Fields choice(one, "a param");
    param.on.push_back({choice.Text("target"), choice.Text("values"), choice.Text("default")});
    fields.Fail(choice.status());
  });
  if (param.on.empty()) fields.Fail("choices");
  RETURN_IF_ERROR(fields.status());
  // The last is for every target.
  param.values = param.on.back().values;
  param.default_value = param.on.back().default_value;
  param.on.pop_back();
  return param;
}

absl::StatusOr<StepSpec> StepOf(const Json& json) {
  Fields fields(json, "a step");
  StepSpec step{.launch = LaunchSpec{.grid = fields.Texts("grid"),
                                     .block = fields.Texts("block"),
                                     .cluster = fields.Texts("cluster"),
                                     .shared_bytes = fields.Text("shared_bytes")},
                .when = fields.Text("when")};
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
  if (format != "tunectl snapshot" || version != kSnapshotVersion) {
    return Damaged(absl::StrCat("it is of version ", version, ", not ", kSnapshotVersion));
  }
  return number;
}

absl::StatusOr<TargetTraits> ReadTarget(const std::string& name, const Json& json) {
  Fields fields(json, "a target");
  fields.Boolean("is_host");  // by the name, here
  TargetTraits target{.target = name,
                      .sm = static_cast<int>(fields.Integer("sm")),
                      .max_threads_per_block = fields.Integer("max_threads_per_block"),
                      .max_shared_bytes = fields.Integer("max_shared_bytes"),
                      .sm_count = fields.Integer("sm_count")};
  RETURN_IF_ERROR(fields.status());
  return target;
}

absl::StatusOr<SnapshotKernel> ReadKernel(const Json& json) {
  Fields fields(json, "a kernel");
  SnapshotKernel kernel{.hash = fields.Text("hash"),
                        .include_digest = TextIn(json, "include_digest"),
                        .json = json.dump(-1, ' ', false, Json::error_handler_t::replace),
                        .on_host = fields.Boolean("on_host")};
  KernelSpec& spec = kernel.spec;
  spec.name = fields.Text("name");
  spec.targets = fields.Texts("targets");
  spec.dtypes = fields.Texts("dtypes");
  for (std::string& text : fields.Texts("constraints")) spec.constraints.push_back({text});
  const auto add = [&](auto one, auto& list) {
    fields.Fail(one.status());
    if (one.ok()) list.push_back(*std::move(one));
  };
  fields.List("dims", kMembersMax, [&](const Json& one) { add(DimOf(one), spec.dims); });
  fields.List("params", kMembersMax, [&](const Json& one) { add(ParamOf(one), spec.params); });
  fields.List("steps", kMembersMax, [&](const Json& one) { add(StepOf(one), spec.steps); });
  fields.List("lets", kMembersMax, [&](const Json& one) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_string()) {
      return fields.Fail("lets");
    }
    spec.lets.push_back({one[0].get<std::string>(), one[1].get<std::string>()});
  });
  RETURN_IF_ERROR(fields.status());
  kernel.rules = Kernel::CreateRules(spec, kernel.hash);
  return kernel;
}

}  // namespace tune::library
