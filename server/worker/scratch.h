// SPDX-License-Identifier: Apache-2.0
// Folders that others' code has written to.
#pragma once

#include <string>

namespace tune::server {

// Removes all that is in it: folders of any depth, and such as say that nobody may list them, where
// this process may change that. Links are not followed. False: something is left. A folder that is
// not there is empty.
bool EmptyFolder(const std::string& path);
// The folder itself, too.
bool RemoveFolder(const std::string& path);

}  // namespace tune::server
