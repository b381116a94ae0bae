// SPDX-License-Identifier: Apache-2.0
// Included ahead of every kernel on the CPU device.
#pragma once

// Headers of the system that <string>, <thread> and <iostream> include, and that cannot come later:
#include <time.h>   // has a clock() of its own
#include <wchar.h>  // renames its functions by assembly

#include "launch.h"
#include "sync.h"
#include "atomics.h"
#include "vectors.h"
#include "functions.h"
#include "half.h"

// A kernel's own assembly would be PTX, and the directives of an assembler can read any file.
#pragma GCC poison asm __asm __asm__
