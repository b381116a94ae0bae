// SPDX-License-Identifier: Apache-2.0
// Leaving one stack for another. On x86-64 by code of our own: Boost.Context's ends in a jump,
// after which a processor mispredicts every return of the fiber it arrives in, and that made a
// switch four times as long. Elsewhere by Boost.Context.
#pragma once

#include <cstddef>

namespace tune::cpu {

// For SwitchStacks: a stack of `bytes` ending at `top`, on which `entry` begins with the data that
// it is switched to with. `entry` must not return.
void* PrepareStack(void* top, size_t bytes, void (*entry)(void* data));

// Keeps in `*from` where the caller is, and goes on where `to` was kept. Returns, once something
// switches back, the data given there.
void* SwitchStacks(void** from, void* to, void* data);

}  // namespace tune::cpu
