// SPDX-License-Identifier: Apache-2.0
// tunectl space count|show|sample
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/catalogue.grpc.pb.h"

namespace tune::client {
namespace {

struct SpaceFlags {
  std::string space;   // a kernel's name, or a path
  std::string kernel;  // the same
  std::string dtype;
  std::string target;
  uint32_t count = 10;
  uint64_t seed = 0;
};

absl::StatusOr<v1::SpaceSource> Source(const Session& session, const SpaceFlags& flags) {
  if (flags.space.empty() == flags.kernel.empty()) {
    return absl::InvalidArgumentError(
        "name one space: a kernel of the catalogue, a .textproto spec or a .json definition");
  }
  const std::string& name = flags.space.empty() ? flags.kernel : flags.space;
  v1::SpaceSource source;
  if (absl::EndsWith(name, ".json")) {
    ASSIGN_OR_RETURN(auto text, ReadDefinition(name));
    source.set_definition_json(std::move(text));
  } else {
    RETURN_IF_ERROR(SetKernel(name, source).status());
  }
  ASSIGN_OR_RETURN(auto dims, ParseDims(session.dims));
  source.mutable_dims()->insert(dims.begin(), dims.end());
  source.set_dtype(flags.dtype);
  source.set_target(flags.target);
  return source;
}

// "349853", or "about 6.87e+10".
std::string CountText(double count) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return count <= kExact ? absl::StrFormat("%.0f", count) : absl::StrFormat("%.3g", count);
}

std::string ShareText(double part, double whole) {
  const double percent = whole > 0 ? 100 * part / whole : 0;
  return percent < 0.1 && percent > 0 ? absl::StrFormat("%.2g %%", percent)
                                      : absl::StrFormat("%.1f %%", percent);
}

std::string ValidText(const v1::DescribeSpaceResponse& response) {
  if (response.exact()) return CountText(response.valid());
  return absl::StrFormat("about %.3g (+- %.1f %%): too large to be counted", response.valid(),
                         100 * response.relative_error());
}

void PrintCount(const v1::DescribeSpaceResponse& response) {
  if (response.has_problem()) {
    std::printf("%-12s%s on %s\n", "problem", ToText(response.problem()).c_str(),
                response.target().c_str());
  }
  std::printf("%-12s%s\n", "valid", Bold(ValidText(response)).c_str());
  std::printf("%-12s%s\n", "product", CountText(response.product()).c_str());
  std::printf("%-12s%s\n", "share", ShareText(response.valid(), response.product()).c_str());
  std::printf("%-12s%.3f ms\n", "built in", 1e3 * response.build_seconds());
  std::printf("%-12s%s\n", "size", BytesText(static_cast<double>(response.bytes())).c_str());
  std::printf("%-12s", "groups");
  bool first = true;
  for (const v1::SpaceComponent& component : response.components()) {
    if (component.valid() == 1 && response.components_size() > 1) continue;
    std::printf("%s%lu of %s", first ? "" : " x ", static_cast<unsigned long>(component.valid()),
                absl::StrJoin(component.params(), " ").c_str());
    first = false;
  }
  std::printf(first ? "1\n" : "\n");
}

void PrintDetails(const v1::DescribeSpaceResponse& response) {
  Table params({"param", "value", "valid configs", "share"});
  for (const v1::SpaceParam& param : response.params()) {
    for (int i = 0; i < param.values_size(); ++i) {
      const v1::SpaceValue& value = param.values(i);
      params.Add({i == 0 ? param.name() : "", ToText(value.value()), CountText(value.valid()),
                  ShareText(value.valid(), response.valid())});
    }
  }
  std::printf("\n%s", params.Text().c_str());
  if (response.constraints().empty()) return;
  Table constraints({"rejects", "share", "alone", "constraint"});
  for (const v1::ConstraintEffect& constraint : response.constraints()) {
    constraints.Add(
        {constraint.has_rejects() ? CountText(constraint.rejects()) : "?",
         constraint.has_rejects() ? ShareText(constraint.rejects(), response.product()) : "?",
         constraint.has_rejects_alone() ? CountText(constraint.rejects_alone()) : "?",
         constraint.text()});
  }
  std::printf("\n%s\nrejects: of the product; alone: that no other constraint rejects\n",
              constraints.Text().c_str());
}

absl::Status Describe(Session& session, const SpaceFlags& flags, bool details) {
  v1::DescribeSpaceRequest request;
  ASSIGN_OR_RETURN(*request.mutable_space(), Source(session, flags));
  request.set_details(details);
  ASSIGN_OR_RETURN(
      const v1::DescribeSpaceResponse response,
      Call(session.Connect(Need::kKernels), &v1::KernelService::Stub::DescribeSpace, request));
  return Print(session, response, [details](const v1::DescribeSpaceResponse& space) {
    PrintCount(space);
    if (details) PrintDetails(space);
  });
}

absl::Status Sample(Session& session, const SpaceFlags& flags) {
  v1::SampleSpaceRequest request;
  ASSIGN_OR_RETURN(*request.mutable_space(), Source(session, flags));
  request.set_count(flags.count);
  request.set_seed(flags.seed);
  ASSIGN_OR_RETURN(
      const v1::SampleSpaceResponse response,
      Call(session.Connect(Need::kKernels), &v1::KernelService::Stub::SampleSpace, request));
  return Print(session, response, [](const v1::SampleSpaceResponse& sample) {
    for (const v1::Config& config : sample.configs()) std::printf("%s\n", ToText(config).c_str());
  });
}

Command SpaceVerb(std::string name, std::string help, std::vector<std::string> examples,
                  SpaceFlags& flags, std::function<absl::Status()> run) {
  return {.name = std::move(name),
          .help = std::move(help),
          .examples = std::move(examples),
          .dims = true,
          .json = kJsonHelp,
          .flags = {Flag("SPACE", &flags.space,
                         "Kernel of the catalogue, or path of a spec or of a .json definition"),
                    Flag("--kernel", &flags.kernel, "Kernel name or spec path (same as SPACE)"),
                    Flag("--dtype", &flags.dtype, kDtypeHelp),
                    Flag("--target", &flags.target,
                         "Target such as cpu or sm_90a; by default this host's first device")},
          .run = std::move(run)};
}

}  // namespace

Command SpaceCommand(Session& session) {
  const auto flags = std::make_shared<SpaceFlags>();
  Command sample = SpaceVerb("sample", "Print some valid configs, drawn uniformly, each once",
                             {"tunectl space sample --kernel my/kernel.textproto -n 5 --seed 1"},
                             *flags, [&session, flags] { return Sample(session, *flags); });
  sample.flags =
      Joined(std::move(sample.flags),
             {Flag("-n,--count", &flags->count, "Number of configs to sample").Range(1, 10000),
              Flag("--seed", &flags->seed, "Seed of the draws (default 0)")});
  return {
      .name = "space",
      .help = "The valid configs of a kernel, or of a space that another tuner wrote down",
      .verbs = {
          SpaceVerb("count", "Count the valid configs and all combinations",
                    {"tunectl space count softmax --cols 8192", "tunectl space count hotspot.json"},
                    *flags, [&session, flags] { return Describe(session, *flags, false); }),
          SpaceVerb("show", "Count the valid configs by value, and what each constraint rejects",
                    {"tunectl space show gemm --target sm_90a"}, *flags,
                    [&session, flags] { return Describe(session, *flags, true); }),
          std::move(sample)}};
}

}  // namespace tune::client
