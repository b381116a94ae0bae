// SPDX-License-Identifier: Apache-2.0
// Removes folders to which foreign code has written.
#pragma once

#include <string>

namespace tune::server {

// Removes a folder's content, at any depth, including folders that cannot be listed if this process
// may change their mode. Does not follow links. Returns false if something is left. A missing
// folder counts as empty.
bool EmptyFolder(const std::string& path);
// Removes the folder itself, too.
bool RemoveFolder(const std::string& path);

}  // namespace tune::server
