// SPDX-License-Identifier: Apache-2.0
// A kernel's spec: from its text, protobuf text format, and as a message. This is the one place
// that knows both tune.v1.KernelSpec and the tuner's KernelSpec.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tune/v1/kernel.pb.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

struct WrittenSpec {
  KernelSpec spec;
  SpecText text;
};

// INVALID_ARGUMENT has the line and the column if the text is no spec.
absl::StatusOr<WrittenSpec> ReadSpec(const std::string& spec_name, const std::string& spec_text);

// The kernel of a spec's text. Errors and arguments are those of ReadSpec and Kernel::Create.
absl::StatusOr<std::shared_ptr<const Kernel>> ReadKernel(
    const std::string& spec_name, const std::string& spec_text,
    const std::map<std::string, std::string>& files,
    const std::optional<std::string>& origin = std::nullopt);

v1::KernelSpec ToProto(const KernelSpec& spec);

}  // namespace tune::server
