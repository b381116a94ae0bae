// SPDX-License-Identifier: Apache-2.0
// Do two variants run the same instructions? Names, notes and debug information do not matter.
#pragma once

#include <string>

#include "tuner/device/compiler.h"

namespace tune::server {

// SHA-256, hex, of the code and constant data of a compiled variant (sections of its ELF file, be
// it a cubin or a shared object) and of the resources that it takes. Variants with equal hashes run
// the same instructions. What is no ELF file is hashed whole.
std::string MachineCodeHash(const CompiledVariant& variant);

}  // namespace tune::server
