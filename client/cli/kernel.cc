// SPDX-License-Identifier: Apache-2.0
// tunectl kernel list|show|check; new is in kernel_new.cc
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
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

constexpr auto kTimeout = std::chrono::seconds(30);
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
  auto connection = session.Connect(Need::kKernels);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::ListKernelsResponse response;
  absl::Status status = FromGrpc((*connection)->kernels().ListKernels(&context, {}, &response));
  if (!status.ok()) return status;
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
absl::StatusOr<v1::Kernel> OwnKernel(Connection& connection, const std::string& path) {
  absl::StatusOr<std::string> name = KernelName(path);
  if (!name.ok()) return name.status();
  auto files = ReadKernelFiles(path);
  if (!files.ok()) return files.status();
  v1::Kernel kernel;
  *kernel.mutable_spec() = files->spec;
  kernel.set_source_text(files->source.files().at(files->spec.source()));
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::DescribeSpaceRequest request;
  *request.mutable_space()->mutable_kernel_source() = std::move(files->source);
  v1::DescribeSpaceResponse space;
  absl::Status status = FromGrpc(connection.kernels().DescribeSpace(&context, request, &space));
  if (!status.ok()) return status;
  (*kernel.mutable_space_sizes())[space.target()] = static_cast<uint64_t>(space.valid());
  return kernel;
}

absl::StatusOr<v1::Kernel> KernelOf(Connection& connection, const std::string& chosen) {
  if (IsSpecPath(chosen)) return OwnKernel(connection, chosen);
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetKernelRequest request;
  request.set_name(chosen);
  v1::Kernel kernel;
  absl::Status status = FromGrpc(connection.kernels().GetKernel(&context, request, &kernel));
  if (!status.ok()) return status;
  return kernel;
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

absl::Status Show(Session& session, const absl::StatusOr<std::string>& chosen, bool json,
                  bool source) {
  if (!chosen.ok()) return chosen.status();
  auto connection = session.Connect(Need::kKernels);
  if (!connection.ok()) return connection.status();
  const auto found = KernelOf(**connection, *chosen);
  if (!found.ok()) return found.status();
  const v1::Kernel& kernel = *found;
  if (json) {
    PrintJson(kernel);
    return absl::OkStatus();
  }
  if (source) {
    std::fputs(kernel.source_text().c_str(), stdout);
    return absl::OkStatus();
  }
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
  std::printf("next      tunectl sweep %s\n", chosen->c_str());
  return absl::OkStatus();
}

struct CheckFlags {
  std::string kernel;
  std::string kernel_flag;
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
  const auto kernel = OneKernel(flags.kernel, flags.kernel_flag);
  if (!kernel.ok()) return kernel.status();
  if (!IsSpecPath(*kernel)) {
    request.set_kernel_name(*kernel);
  } else {
    auto files = ReadKernelFiles(*kernel);
    if (!files.ok()) return files.status();
    *request.mutable_kernel_source() = std::move(files->source);
  }
  for (const std::string& target : flags.targets) request.add_targets(target);
  request.set_all_variants(flags.all);
  request.set_dtype(flags.dtype);
  auto dims = ParseDims(session.dims);
  if (!dims.ok()) return dims.status();
  request.mutable_dims()->insert(dims->begin(), dims->end());
  return request;
}

absl::Status Check(Session& session, const CheckFlags& flags) {
  auto connection = session.Connect(Need::kKernels);
  if (!connection.ok()) return connection.status();
  auto request = MakeCheckRequest(session, flags);
  if (!request.ok()) return request.status();
  grpc::ClientContext context;
  SetDeadline(context, kCheckTimeout);
  const auto reader = (*connection)->kernels().CheckKernel(&context, *request);
  v1::CheckKernelResponse response;
  CheckMeter meter;
  for (v1::CheckKernelEvent event; reader->Read(&event);) {
    if (event.has_progress()) meter.Show(event.progress());
    if (event.has_response()) response = std::move(*event.mutable_response());
  }
  meter.Clear();
  absl::Status status = FromGrpc(reader->Finish());
  if (!status.ok()) return status;
  if (flags.json) {
    PrintJson(response);
  } else {
    PrintCheck(response);
  }
  const auto& findings = response.findings();
  if (std::any_of(findings.begin(), findings.end(), IsError)) {
    session.Finish(response.has_kernel() ? kFailed : kUsage);
  }
  return absl::OkStatus();
}

}  // namespace

void AddKernel(CLI::App& app, Session& session) {
  CLI::App* kernel = app.add_subcommand("kernel", "The kernels there are, and checking your own");
  kernel->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  auto name = std::make_shared<std::string>();
  auto source = std::make_shared<bool>(false);
  auto flags = std::make_shared<CheckFlags>();

  CLI::App* list = kernel->add_subcommand("list", "The catalogue");
  list->add_flag("--json", *json, "As JSON");
  list->callback([&session, json] { session.Finish(List(session, *json)); });

  CLI::App* show = kernel->add_subcommand("show", "One kernel: dims, params, size of its space");
  auto name_flag = std::make_shared<std::string>();
  show->add_option("KERNEL", *name, kKernelHelp);
  show->add_option("--kernel", *name_flag, kKernelFlagHelp);
  show->add_flag("--json", *json, "As JSON, with source and README");
  show->add_flag("--source", *source, "Its source text");
  show->callback([&session, name, name_flag, json, source] {
    session.Finish(Show(session, OneKernel(*name, *name_flag), *json, *source));
  });

  CLI::App* check =
      kernel->add_subcommand("check",
                             "Check a spec and compile it, without running it.\nExamples:\n"
                             "  tunectl kernel check my/kernel.textproto\n"
                             "  tunectl kernel check softmax --target sm_90a --all");
  check->add_option("KERNEL", flags->kernel, kKernelHelp);
  check->add_option("--kernel", flags->kernel_flag, kKernelFlagHelp);
  check->add_option("--target", flags->targets, "Target such as cpu or sm_90a; may be repeated");
  check->add_option("--dtype", flags->dtype, "Data type");
  check->add_flag("--all", flags->all, "Compile every config, not only the default");
  check->add_flag("--json", flags->json, "As JSON");
  check->callback([&session, flags] {
    const absl::Status status = Check(session, *flags);
    if (!status.ok()) session.Finish(status);
  });
  AddKernelNew(*kernel, session);
}

}  // namespace tune::client
