// SPDX-License-Identifier: Apache-2.0
// tunectl kernel list|show|check|new
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/dim_flags.h"
#include "client/cli/templates.h"
#include "client/report/terminal.h"
#include "tune/v1/catalogue.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kLineEvery = std::chrono::seconds(10);
constexpr auto kCheckTimeout = std::chrono::minutes(60);  // a whole space may be compiled

// "cpu and sm_90", or "19 targets (cpu, sm_75, ..., sm_121a)".
std::string TargetsText(const std::vector<std::string>& targets) {
  if (targets.size() <= 2) return absl::StrJoin(targets, " and ");
  return absl::StrCat(targets.size(), " targets (", targets[0], ", ", targets[1],
                      targets.size() > 3 ? ", ..., " : ", ", targets.back(), ")");
}

// "8 on cpu and sm_90, 6 on sm_75": each count with the targets that have it.
std::string CountsByTarget(const google::protobuf::Map<std::string, uint64_t>& counts,
                           absl::string_view preposition) {
  std::vector<std::string> targets;
  for (const auto& [target, count] : counts) targets.push_back(target);
  // sm_90 before sm_100.
  std::sort(targets.begin(), targets.end(), [](const std::string& a, const std::string& b) {
    return std::pair(absl::StripSuffix(a, "a").size(), absl::string_view(a)) <
           std::pair(absl::StripSuffix(b, "a").size(), absl::string_view(b));
  });
  std::map<uint64_t, std::vector<std::string>, std::greater<>> with_count;
  for (const std::string& target : targets) with_count[counts.at(target)].push_back(target);
  return absl::StrJoin(with_count, ", ", [&](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " ", preposition, " ", TargetsText(entry.second));
  });
}

std::string SizesText(const v1::Kernel& kernel) {
  return kernel.space_sizes().empty() ? "none" : CountsByTarget(kernel.space_sizes(), "on");
}

absl::Status ListKernels(Session& session) {
  ASSIGN_OR_RETURN(
      const v1::ListKernelsResponse response,
      Call(session.Connect(Need::kKernels), &v1::KernelService::Stub::ListKernels, {}));
  const auto row = [](const v1::Kernel& kernel) -> Cells {
    return {kernel.spec().name(), absl::StrJoin(kernel.spec().dtypes(), ","), SizesText(kernel),
            kernel.spec().summary()};
  };
  return PrintList(session, "kernels", response.kernels(),
                   {"kernel", "dtypes", "configs", "summary"}, row);
}

// A kernel of the user's as GetKernel returns a kernel of the catalogue, but without its hash.
absl::StatusOr<v1::Kernel> OwnKernel(Connection* connection, const std::string& path) {
  RETURN_IF_ERROR(KernelName(path).status());
  ASSIGN_OR_RETURN(KernelFiles files, ReadKernelFiles(path));
  v1::Kernel kernel;
  *kernel.mutable_spec() = files.spec;
  kernel.set_source_text(files.source.files().at(files.spec.source()));
  v1::DescribeSpaceRequest request;
  *request.mutable_space()->mutable_kernel_source() = std::move(files.source);
  ASSIGN_OR_RETURN(const v1::DescribeSpaceResponse space,
                   Call(connection, &v1::KernelService::Stub::DescribeSpace, request));
  (*kernel.mutable_space_sizes())[space.target()] = static_cast<uint64_t>(space.valid());
  return kernel;
}

absl::StatusOr<v1::Kernel> KernelOf(Connection* connection, const std::string& chosen) {
  if (IsSpecPath(chosen)) return OwnKernel(connection, chosen);
  v1::GetKernelRequest request;
  request.set_name(chosen);
  return Call(connection, &v1::KernelService::Stub::GetKernel, request);
}

std::string RoleText(v1::Role role) {
  switch (role) {
    case v1::ROLE_OUTPUT:
      return "output";
    case v1::ROLE_INOUT:
      return "input and output";
    default:
      return "input";
  }
}

// Prints what a call of tunectl.kernel gives and gets.
void PrintArgs(const v1::KernelSpec& spec) {
  std::printf("\nargs\n");
  for (const v1::Arg& arg : spec.args()) {
    if (arg.has_buffer() && arg.buffer().role() != v1::ROLE_SCRATCH) {
      const v1::Buffer& buffer = arg.buffer();
      std::printf("  %-24s%s[%s], %s%s%s\n", arg.name().c_str(), buffer.dtype().c_str(),
                  absl::StrJoin(buffer.shape(), ", ").c_str(), RoleText(buffer.role()).c_str(),
                  buffer.strided() ? ", of any strides" : "",
                  buffer.used_if().empty() ? "" : absl::StrCat(", if ", buffer.used_if()).c_str());
    } else if (arg.has_symbol()) {
      std::printf("  %-24s%s[%s], input\n", arg.name().c_str(), arg.symbol().dtype().c_str(),
                  absl::StrJoin(arg.symbol().shape(), ", ").c_str());
    } else if (arg.has_scalar() && absl::StrContains(arg.scalar().dtype(), "f")) {
      std::printf("  %-24s%s, scalar, measured at %s\n", arg.name().c_str(),
                  arg.scalar().dtype().c_str(), arg.scalar().value().c_str());
    }
  }
}

// Prints the launches of a kernel that has several.
void PrintSteps(const v1::KernelSpec& spec) {
  if (spec.steps_size() == 0) return;
  std::printf("\nsteps\n");
  for (const v1::Step& step : spec.steps()) {
    std::printf("  %-24s%s%s\n", (step.name().empty() ? step.entry() : step.name()).c_str(),
                step.zero_size() == 0
                    ? ""
                    : absl::StrCat("zeroes ", absl::StrJoin(step.zero(), ", "), " ").c_str(),
                step.when().empty() ? "" : absl::StrCat("(when ", step.when(), ")").c_str());
  }
}

std::string LanguageText(v1::Language language) {
  return v1::Language_Name(language == v1::LANGUAGE_UNSPECIFIED ? v1::CUDA : language);
}

void PrintKernel(const v1::Kernel& kernel, const std::string& chosen) {
  std::printf("%s  %s\n\ndims\n%s\nparams\n", Bold(kernel.spec().name()).c_str(),
              kernel.spec().summary().c_str(), DimHelp(kernel.spec()).c_str());
  for (const v1::Param& param : kernel.spec().params()) {
    std::string values = absl::StrCat(param.values(), "; default ", param.default_value());
    for (const v1::ParamOn& on : param.on()) {
      absl::StrAppend(&values, "; on ", on.target(), " ", on.values(), ", default ",
                      on.default_value());
    }
    std::printf("  %-24s%s (%s)\n", param.name().c_str(), param.doc().c_str(), values.c_str());
  }
  PrintArgs(kernel.spec());
  PrintSteps(kernel.spec());
  std::printf("\nlanguage  %s\n", LanguageText(kernel.spec().language()).c_str());
  std::printf("configs   %s\n", SizesText(kernel).c_str());
  if (!kernel.hash().empty()) std::printf("hash      %s\n", kernel.hash().c_str());
  std::printf("next      tunectl sweep %s\n", chosen.c_str());
}

struct ShowFlags {
  KernelChoice kernel;
  bool source = false;
};

absl::Status Show(Session& session, const ShowFlags& flags) {
  ASSIGN_OR_RETURN(const std::string chosen, OneKernel(flags.kernel));
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kKernels));
  ASSIGN_OR_RETURN(const v1::Kernel kernel, KernelOf(connection, chosen));
  if (flags.source && !session.json) {
    std::fputs(kernel.source_text().c_str(), stdout);
    return absl::OkStatus();
  }
  return Print(session, kernel, [&](const v1::Kernel& shown) { PrintKernel(shown, chosen); });
}

struct CheckFlags {
  ProblemFlags problem;
  std::vector<std::string> targets;
  bool all = false;
};

bool IsError(const v1::CheckFinding& finding) {
  return finding.severity() != v1::CHECK_SEVERITY_WARNING;
}

void PrintCheck(const v1::CheckKernelResponse& response) {
  for (const v1::CheckFinding& finding : response.findings()) {
    std::fprintf(stderr, "%s%s%s%s\n", finding.where().c_str(), finding.where().empty() ? "" : ": ",
                 IsError(finding) ? "" : "warning: ", finding.message().c_str());
  }
  if (!response.has_kernel()) return;
  std::printf("%s: configs: %s", response.kernel().spec().name().c_str(),
              SizesText(response.kernel()).c_str());
  const std::string compiled = CountsByTarget(response.compiled(), "compiled for");
  if (!compiled.empty()) std::printf("; %s", compiled.c_str());
  std::printf("; %s\n", Counted(response.findings_size(), "finding").c_str());
}

void Show(ProgressMeter& meter, const v1::CheckProgress& progress) {
  meter.Show(
      absl::StrCat(progress.target(), ": ", progress.done(), " of ", progress.total(),
                   progress.total() == 1 ? " config" : " configs", " tried",
                   progress.errors() > 0 ? absl::StrCat("; errors: ", progress.errors()) : ""),
      /*always=*/progress.done() == progress.total());
}

absl::StatusOr<v1::CheckKernelRequest> MakeCheckRequest(const Session& session,
                                                        const CheckFlags& flags) {
  v1::CheckKernelRequest request;
  ASSIGN_OR_RETURN(const std::string kernel, OneKernel(flags.problem.kernel));
  RETURN_IF_ERROR(SetKernel(kernel, request).status());
  for (const std::string& target : flags.targets) request.add_targets(target);
  request.set_all_variants(flags.all);
  request.set_dtype(flags.problem.dtype);
  ASSIGN_OR_RETURN(auto dims, ParseDims(session.dims));
  request.mutable_dims()->insert(dims.begin(), dims.end());
  return request;
}

absl::Status Check(Session& session, const CheckFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kKernels));
  ASSIGN_OR_RETURN(const v1::CheckKernelRequest request, MakeCheckRequest(session, flags));
  v1::CheckKernelResponse response;
  ProgressMeter meter(/*quiet=*/false, kLineEvery, /*late=*/true);
  const auto take = [&](v1::CheckKernelEvent& event) {
    if (event.has_progress()) Show(meter, event.progress());
    if (event.has_response()) response = std::move(*event.mutable_response());
  };
  const absl::Status checked =
      CallStream(connection, &v1::KernelService::Stub::CheckKernel, request, take, kCheckTimeout);
  meter.Clear();
  RETURN_IF_ERROR(checked);
  const auto& findings = response.findings();
  if (std::any_of(findings.begin(), findings.end(), IsError)) {
    session.Finish(response.has_kernel() ? kFailed : kUsage);
  }
  return Print(session, response, PrintCheck);
}

struct NewFlags {
  std::string name;
  std::string language = "cuda";
  std::string folder;
};

absl::Status New(const NewFlags& flags) {
  ASSIGN_OR_RETURN(auto files, NewKernelFiles(flags.name, flags.language));
  const std::string folder = flags.folder.empty() ? flags.name : flags.folder;
  RETURN_IF_ERROR(WriteNewFolder(folder, files));
  const std::string spec = absl::StrCat(folder, "/", flags.name, ".textproto");
  for (const auto& [name, text] : files) std::printf("%s/%s\n", folder.c_str(), name.c_str());
  std::fprintf(stderr, "next: tunectl sweep %s --budget 30s\n", spec.c_str());
  return absl::OkStatus();
}

Command NewCommand() {
  const auto flags = std::make_shared<NewFlags>();
  return {
      .name = "new",
      .help = "Write a kernel to start from: spec, source, reference and README, in a new folder",
      .examples = {"tunectl kernel new rms-norm",
                   "tunectl kernel new rms-norm --language ptx --folder kernels/rms-norm"},
      .flags = {Flag("NAME", &flags->name, "Name of the kernel: 'rms-norm'").Required(),
                Flag("--language", &flags->language, "Language of the source")
                    .OneOf(TemplateLanguages()),
                Flag("--folder", &flags->folder, "Folder to write; by default NAME")},
      .run = [flags] { return New(*flags); }};
}

}  // namespace

Command KernelCommand(Session& session) {
  const auto show = std::make_shared<ShowFlags>();
  const auto check = std::make_shared<CheckFlags>();
  return {.name = "kernel",
          .help = "The catalogue of kernels, and checks of your own",
          .verbs = {
              {.name = "list",
               .help = "List the catalogue",
               .json = kJsonHelp,
               .run = [&session] { return ListKernels(session); }},
              {.name = "show",
               .help = "Show one kernel: dims, params, args, size of its space",
               .kernel = &show->kernel,
               .json = "Print JSON, with source and README",
               .flags = {Flag("--source", &show->source, "Print its source text")},
               .run = [&session, show] { return Show(session, *show); }},
              {.name = "check",
               .help = "Check a spec and compile it, without running it",
               .examples = {"tunectl kernel check my/kernel.textproto",
                            "tunectl kernel check softmax --target sm_90a --all"},
               .kernel = &check->problem.kernel,
               .dims = true,
               .json = kJsonHelp,
               .flags = {Flag("--target", &check->targets,
                              "Target such as cpu or sm_90a; may be given several times"),
                         Flag("--dtype", &check->problem.dtype, kDtypeHelp),
                         Flag("--all", &check->all, "Compile every config, not only the default")},
               .run = [&session, check] { return Check(session, *check); }},
              NewCommand()}};
}

}  // namespace tune::client
