// SPDX-License-Identifier: Apache-2.0
// The headers that kernels share, kernels/include/, compiled in as text.
//
// A spec names one as "<kernels/rows.cuh>" among its `headers`. Whoever reads a kernel's folder
// (the catalogue, tunectl) resolves such names before a kernel is hashed or sent: the spec's text
// gets the plain names of the header and of those that it includes, and their texts join the
// kernel's files. What a daemon receives is whole, and no hash depends on where a header lay.
// client/python/src/tunectl/_kernel_folder.py resolves by the same rules.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune {

// The headers that ship, by name: "rows.cuh".
const std::map<std::string, std::string_view>& SharedHeaders();

struct ResolvedSpec {
  std::string text;                            // the spec's, without "<kernels/...>"
  std::map<std::string, std::string> headers;  // the shared headers that it needs, by name
};

// Returns the text of a shared header, whose name is one of SharedHeaders(). An error ends the
// resolution.
using ReadSharedHeader = std::function<absl::StatusOr<std::string>(const std::string& name)>;

// Replaces each "<kernels/NAME>" in `headers` by "NAME", after the names of the shared headers that
// it includes, directly or not, unless `headers` names these itself or an earlier one brought them.
// The rest of the text stays as it is, even if it is no spec.
// INVALID_ARGUMENT: "k.textproto:7:11: headers: ...": no such header ships.
absl::StatusOr<ResolvedSpec> ResolveSharedHeaders(const std::string& spec_name,
                                                  const std::string& spec_text,
                                                  const ReadSharedHeader& read);

// INVALID_ARGUMENT: the kernel's folder has the file `path`, named like the shared header `name`
// that the spec needs.
absl::Status SharedHeaderClash(const std::string& path, const std::string& name);

}  // namespace tune
