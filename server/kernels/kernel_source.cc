// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/kernel_source.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/kernels/allocation_limit.h"
#include "server/rpc/error_detail.h"
#include "server/wire/spec.h"

namespace tune::server {
namespace {

constexpr size_t kNameMax = 128;
// Beside its sources: a character of an expression may be some 300 bytes of its syntax tree.
constexpr size_t kParsedBytesMax = 16 << 20;

}  // namespace

absl::Status CheckName(const std::string& what, const std::string& text) {
  if (text.size() > kNameMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", text.size(), " characters; at most ", kNameMax));
  }
  if (std::any_of(text.begin(), text.end(), absl::ascii_iscntrl)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has a control character"));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedKernel> ParseKernelSource(const v1::KernelSource& source,
                                              const std::optional<std::string>& name_space) {
  RETURN_IF_ERROR(CheckName("the spec's name", source.spec_name()));
  if (source.files_size() > kSourceFilesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the kernel has ", source.files_size(), " files; at most ", kSourceFilesMax));
  }
  size_t bytes = source.spec_text().size();
  for (const auto& [name, text] : source.files()) bytes += name.size() + text.size();
  if (bytes > kSourceBytesMax) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("the kernel's spec and files have ", bytes,
                                                " bytes; at most ", kSourceBytesMax)),
        v1::ERROR_REASON_TOO_LARGE);
  }
  NamedKernel named;
  named.spec_name = source.spec_name().empty() ? "kernel.textproto" : source.spec_name();
  const std::map<std::string, std::string> files(source.files().begin(), source.files().end());
  bool ended = false;
  const absl::Status parsed = RunWithin(kParsedBytesMax + 3 * bytes, [&]() -> absl::Status {
    auto kernel = ReadKernel(named.spec_name, source.spec_text(), files, name_space);
    if (kernel.ok()) named.kernel = std::move(*kernel);
    ended = true;
    return kernel.status();
  });
  if (!ended) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("the spec is too large, ", parsed.message(),
                                                ": give it fewer and shorter expressions")),
        v1::ERROR_REASON_TOO_LARGE);
  }
  if (!parsed.ok()) return WithPlace(parsed);
  return named;
}

}  // namespace tune::server
