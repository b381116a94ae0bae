// SPDX-License-Identifier: Apache-2.0
// Reads a kernel of the user's from disk, to be sent as text: the daemon opens no path.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tune/v1/kernel.pb.h"

namespace tune::client {

struct KernelFiles {
  v1::KernelSource source;
  v1::KernelSpec spec;  // empty if the text does not parse: the server says where it is wrong
  bool is_spec = true;  // false if the text is of another message, by its header or by its fields
};

// Returns the text of a file of a folder, of at most so many bytes. NOT_FOUND: there is no such
// file.
using FileReader = std::function<absl::StatusOr<std::string>(
    const std::string& folder, const std::string& name, size_t bytes_max)>;

// The spec at `path` with the source, headers and data it names, from the spec's folder. A shared
// header that it names as "<kernels/rows.cuh>" is sent as the file "rows.cuh", with those that it
// includes, and the spec's text names them so (kernels/shared_headers.h).
// INVALID_ARGUMENT: a file that cannot be read, that is no regular file or that a link leads to out
// of the folder; a shared header that tunectl lacks, or that has the name of a file in the folder;
// more than 256 files, 1 MiB of text, or 16 MiB of what buffers hold.
absl::StatusOr<KernelFiles> ReadKernelFiles(const std::string& path);
// Reads the files by `read`, from a commit, for example.
absl::StatusOr<KernelFiles> ReadKernelFiles(const std::string& path, const FileReader& read);

// The text of a space definition. INVALID_ARGUMENT as above.
absl::StatusOr<std::string> ReadDefinition(const std::string& path);

}  // namespace tune::client
