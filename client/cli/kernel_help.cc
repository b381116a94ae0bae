// SPDX-License-Identifier: Apache-2.0
#include "client/cli/kernel_help.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "client/connect/rpc.h"
#include "tune/v1/kernel.pb.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(10);

absl::StatusOr<v1::KernelSpec> SpecOf(Session& session, const std::string& kernel) {
  if (IsSpecPath(kernel)) {
    auto files = ReadKernelFiles(kernel);
    if (!files.ok()) return files.status();
    return std::move(files->spec);
  }
  auto connection = session.Connect(Need::kKernels);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetKernelRequest request;
  request.set_name(kernel);
  v1::Kernel found;
  absl::Status status = FromGrpc((*connection)->kernels().GetKernel(&context, request, &found));
  if (!status.ok()) return status;
  return std::move(*found.mutable_spec());
}

}  // namespace

KernelHelp::KernelHelp(CLI::App& command) : command_(command) {
  command.set_help_flag();
  command.add_flag("-h,--help", asked_, "This help; with a kernel, also its dims");
}

absl::Status KernelHelp::Print(Session& session, const std::string& kernel) const {
  std::fputs(command_.help("tunectl").c_str(), stdout);
  if (kernel.empty()) return absl::OkStatus();
  auto spec = SpecOf(session, kernel);
  if (!spec.ok()) return spec.status();
  std::printf("\nDims of %s: %s\n%s\nData types: %s\n", spec->name().c_str(),
              spec->summary().c_str(), DimHelp(*spec).c_str(),
              absl::StrJoin(spec->dtypes(), ", ").c_str());
  return absl::OkStatus();
}

}  // namespace tune::client
