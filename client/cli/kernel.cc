// SPDX-License-Identifier: Apache-2.0
// tunectl kernel list|show|check; new is in kernel_new.cc
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/report/format.h"
#include "client/report/terminal.h"
#include "tune/v1/catalogue.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kLineEvery = std::chrono::seconds(10);
constexpr auto kCheckTimeout = std::chrono::minutes(60);  // a whole space may be compiled

std::string SizesText(const v1::Kernel& kernel) {
  const std::map<std::string, uint64_t> sizes(kernel.space_sizes().begin(),
                                              kernel.space_sizes().end());
  return absl::StrJoin(sizes, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " on ", entry.first);
  });
}

absl::Status List(Session& session, bool json) {
  ASSIGN_OR_RETURN(
      const v1::ListKernelsResponse response,
      Call(session.Connect(Need::kKernels), &v1::KernelService::Stub::ListKernels, {}));
  if (json) {
    PrintJsonList("kernels", response.kernels());
    return absl::OkStatus();
  }
  Table table({"kernel", "dtypes", "configs", "summary"});
  for (const v1::Kernel& kernel : response.kernels()) {
    table.Add({kernel.spec().name(), absl::StrJoin(kernel.spec().dtypes(), ","), SizesText(kernel),
               kernel.spec().summary()});
  }
  std::fputs(table.Text().c_str(), stdout);
  return absl::OkStatus();
}

// A kernel of one's own as GetKernel gives those of the catalogue, but for its hash.
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

// Of a kernel of several launches.
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
  PrintSteps(kernel.spec());
  std::printf("\nlanguage  %s\n", LanguageText(kernel.spec().language()).c_str());
  std::printf("configs   %s\n", SizesText(kernel).c_str());
  if (!kernel.hash().empty()) std::printf("hash      %s\n", kernel.hash().c_str());
  std::printf("next      tunectl sweep %s\n", chosen.c_str());
}

struct ShowFlags {
  KernelChoice kernel;
  bool source = false;
  bool json = false;
};

absl::Status Show(Session& session, const ShowFlags& flags) {
  ASSIGN_OR_RETURN(const std::string chosen, OneKernel(flags.kernel));
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kKernels));
  ASSIGN_OR_RETURN(const v1::Kernel kernel, KernelOf(connection, chosen));
  if (flags.source && !flags.json) {
    std::fputs(kernel.source_text().c_str(), stdout);
    return absl::OkStatus();
  }
  return PrintResult(kernel, flags.json,
                     [&](const v1::Kernel& shown) { PrintKernel(shown, chosen); });
}

struct CheckFlags {
  KernelChoice kernel;
  std::vector<std::string> targets;
  std::string dtype;
  bool all = false;
  bool json = false;
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
  // A map of protobuf has no order.
  const std::map<std::string, uint64_t> compiled(response.compiled().begin(),
                                                 response.compiled().end());
  for (const auto& [target, count] : compiled) {
    std::printf("; %lu compiled for %s", static_cast<unsigned long>(count), target.c_str());
  }
  std::printf("; %d finding%s\n", response.findings_size(),
              response.findings_size() == 1 ? "" : "s");
}

// Progress on stderr: one line that is redrawn on a terminal, else a line for each target, and one
// now and then of a target that takes long.
class CheckMeter {
 public:
  void Show(const v1::CheckProgress& progress) {
    const std::string text =
        absl::StrCat(progress.target(), ": ", progress.done(), " of ", progress.total(),
                     progress.total() == 1 ? " config" : " configs", " tried",
                     progress.errors() > 0 ? absl::StrCat("; errors: ", progress.errors()) : "");
    if (IsInteractive()) {
      live_.Show(text);
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (progress.done() != progress.total() && now - printed_ < kLineEvery) return;
    printed_ = now;
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  void Clear() { live_.Clear(); }

 private:
  LiveLine live_;
  std::chrono::steady_clock::time_point printed_ = std::chrono::steady_clock::now();
};

absl::StatusOr<v1::CheckKernelRequest> MakeCheckRequest(const Session& session,
                                                        const CheckFlags& flags) {
  v1::CheckKernelRequest request;
  ASSIGN_OR_RETURN(const std::string kernel, OneKernel(flags.kernel));
  if (!IsSpecPath(kernel)) {
    request.set_kernel_name(kernel);
  } else {
    ASSIGN_OR_RETURN(auto files, ReadKernelFiles(kernel));
    *request.mutable_kernel_source() = std::move(files.source);
  }
  for (const std::string& target : flags.targets) request.add_targets(target);
  request.set_all_variants(flags.all);
  request.set_dtype(flags.dtype);
  ASSIGN_OR_RETURN(auto dims, ParseDims(session.dims));
  request.mutable_dims()->insert(dims.begin(), dims.end());
  return request;
}

absl::Status Check(Session& session, const CheckFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kKernels));
  ASSIGN_OR_RETURN(const v1::CheckKernelRequest request, MakeCheckRequest(session, flags));
  v1::CheckKernelResponse response;
  CheckMeter meter;
  const auto take = [&](v1::CheckKernelEvent& event) {
    if (event.has_progress()) meter.Show(event.progress());
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
  return PrintResult(response, flags.json, PrintCheck);
}

}  // namespace

Command KernelCommand(Session& session) {
  const auto show = std::make_shared<ShowFlags>();
  const auto check = std::make_shared<CheckFlags>();
  return {
      .name = "kernel",
      .help = "The kernels there are, and checking your own",
      .verbs = {{.name = "list",
                 .help = "The catalogue",
                 .flags = {Flag("--json", &show->json, kJsonHelp)},
                 .run = [&session, show] { return List(session, show->json); }},
                {.name = "show",
                 .help = "One kernel: dims, params, size of its space",
                 .kernel = &show->kernel,
                 .flags = {Flag("--json", &show->json, "Print JSON, with source and README"),
                           Flag("--source", &show->source, "Its source text")},
                 .run = [&session, show] { return Show(session, *show); }},
                {.name = "check",
                 .help = "Check a spec and compile it, without running it.\nExamples:\n"
                         "  tunectl kernel check my/kernel.textproto\n"
                         "  tunectl kernel check softmax --target sm_90a --all",
                 .kernel = &check->kernel,
                 .flags = {Flag("--target", &check->targets,
                                "Target such as cpu or sm_90a; may be repeated"),
                           Flag("--dtype", &check->dtype, "Data type"),
                           Flag("--all", &check->all, "Compile every config, not only the default"),
                           Flag("--json", &check->json, kJsonHelp)},
                 .run = [&session, check] { return Check(session, *check); }},
                KernelNewCommand()}};
}

}  // namespace tune::client
