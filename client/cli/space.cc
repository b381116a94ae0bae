// SPDX-License-Identifier: Apache-2.0
// tunectl space count|show|sample
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/connect/rpc.h"
#include "client/report/format.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(120);

struct SpaceFlags {
  std::string space;   // a kernel's name, or a path
  std::string kernel;  // the same
  std::string dtype;
  std::string target;
  uint32_t count = 10;
  uint64_t seed = 0;
  bool json = false;
};

absl::StatusOr<v1::SpaceSource> Source(const Session& session, const SpaceFlags& flags) {
  if (flags.space.empty() == flags.kernel.empty()) {
    return absl::InvalidArgumentError(
        "name one space: a kernel of the catalogue, a .textproto spec or a .json definition");
  }
  const std::string& name = flags.space.empty() ? flags.kernel : flags.space;
  v1::SpaceSource source;
  if (absl::EndsWith(name, ".json")) {
    auto text = ReadDefinition(name);
    if (!text.ok()) return text.status();
    source.set_definition_json(*std::move(text));
  } else if (IsSpecPath(name)) {
    auto files = ReadKernelFiles(name);
    if (!files.ok()) return files.status();
    *source.mutable_kernel_source() = std::move(files->source);
  } else {
    source.set_kernel_name(name);
  }
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  source.mutable_dims()->insert(dims->begin(), dims->end());
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
  return absl::StrFormat(percent < 0.1 && percent > 0 ? "%.2g %%" : "%.1f %%", percent);
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
  std::printf("%-12s%s\n", "held in", BytesText(static_cast<double>(response.bytes())).c_str());
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
  auto source = Source(session, flags);
  if (!source.ok()) return source.status();
  *request.mutable_space() = *std::move(source);
  request.set_details(details);
  auto connection = session.Connect(Need::kKernels);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::DescribeSpaceResponse response;
  absl::Status status =
      FromGrpc((*connection)->kernels().DescribeSpace(&context, request, &response));
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  PrintCount(response);
  if (details) PrintDetails(response);
  return absl::OkStatus();
}

absl::Status Sample(Session& session, const SpaceFlags& flags) {
  v1::SampleSpaceRequest request;
  auto source = Source(session, flags);
  if (!source.ok()) return source.status();
  *request.mutable_space() = *std::move(source);
  request.set_count(flags.count);
  request.set_seed(flags.seed);
  auto connection = session.Connect(Need::kKernels);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::SampleSpaceResponse response;
  absl::Status status =
      FromGrpc((*connection)->kernels().SampleSpace(&context, request, &response));
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  for (const v1::Config& config : response.configs()) std::printf("%s\n", ToText(config).c_str());
  return absl::OkStatus();
}

void AddSpaceFlags(CLI::App& command, SpaceFlags& flags) {
  command.add_option("SPACE", flags.space,
                     "Kernel of the catalogue, path of a spec, or of a .json definition");
  command.add_option("--kernel", flags.kernel, kKernelFlagHelp);
  command.add_option("--dtype", flags.dtype, "Data type; by default the spec's first");
  command.add_option("--target", flags.target,
                     "Target such as cpu or sm_90a; by default this host's first device");
  command.add_flag("--json", flags.json, "As JSON");
}

}  // namespace

void AddSpace(CLI::App& app, Session& session) {
  CLI::App* space = app.add_subcommand(
      "space", "The valid configs of a kernel, or of a space that another tuner wrote down");
  space->require_subcommand(1);
  auto flags = std::make_shared<SpaceFlags>();

  CLI::App* count =
      space->add_subcommand("count",
                            "How many configs are valid, of how many combinations.\nExamples:\n"
                            "  tunectl space count softmax --cols 8192\n"
                            "  tunectl space count hotspot.json");
  AddSpaceFlags(*count, *flags);
  count->callback([&session, flags] { session.Finish(Describe(session, *flags, false)); });

  CLI::App* show = space->add_subcommand(
      "show",
      "As count, and what each value keeps and each constraint rejects.\nExample:\n"
      "  tunectl space show gemm --target sm_90a");
  AddSpaceFlags(*show, *flags);
  show->callback([&session, flags] { session.Finish(Describe(session, *flags, true)); });

  CLI::App* sample =
      space->add_subcommand("sample",
                            "Some valid configs, all alike likely, each once.\nExample:\n"
                            "  tunectl space sample --kernel my/kernel.textproto -n 5 --seed 1");
  AddSpaceFlags(*sample, *flags);
  sample->add_option("-n,--count", flags->count, "How many")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  sample->add_option("--seed", flags->seed, "Decides which")
      ->check(RefuseMinus)
      ->capture_default_str();
  sample->callback([&session, flags] { session.Finish(Sample(session, *flags)); });
}

}  // namespace tune::client
