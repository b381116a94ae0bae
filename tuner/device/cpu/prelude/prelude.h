// SPDX-License-Identifier: Apache-2.0
// Included ahead of every kernel on the CPU device.
#pragma once

// Read before clock is a macro and assembly a mistake: <iostream> leads to them.
#include <ctime>
#include <cwchar>

#include "launch.h"
#include "sync.h"
#include "atomics.h"
#include "vectors.h"
#include "functions.h"
#include "half.h"

// A kernel's own assembly would be PTX, and the directives of an assembler can read any file.
#pragma GCC poison asm __asm __asm__
