// SPDX-License-Identifier: Apache-2.0
#include "client/cli/kernel_help.h"

#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/dim_flags.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/kernel_files.h"
#include "tune/v1/catalogue.grpc.pb.h"
#include "tune/v1/kernel.pb.h"

namespace tune::client {
namespace {

absl::StatusOr<v1::KernelSpec> SpecOf(Session& session, const std::string& kernel) {
  if (IsSpecPath(kernel)) {
    ASSIGN_OR_RETURN(KernelFiles files, ReadKernelFiles(kernel));
    return std::move(files.spec);
  }
  v1::GetKernelRequest request;
  request.set_name(kernel);
  ASSIGN_OR_RETURN(v1::Kernel found, Call(session.Connect(Need::kKernels),
                                          &v1::KernelService::Stub::GetKernel, request));
  return std::move(*found.mutable_spec());
}

}  // namespace

absl::Status PrintDims(Session& session, const std::vector<std::string>& kernels) {
  if (kernels.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto spec, SpecOf(session, kernels.front()));
  std::printf("\nDims of %s: %s\n%s\nData types: %s\n", spec.name().c_str(), spec.summary().c_str(),
              DimHelp(spec).c_str(), absl::StrJoin(spec.dtypes(), ", ").c_str());
  return absl::OkStatus();
}

}  // namespace tune::client
