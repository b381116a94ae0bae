// SPDX-License-Identifier: Apache-2.0
// Included ahead of every kernel on the CPU device.
#pragma once

#include "launch.h"
#include "sync.h"
#include "atomics.h"
#include "vectors.h"
#include "functions.h"
#include "half.h"

// The C library's assert would do, but its header may not be included any more below.
#if defined(NDEBUG)
#define assert(condition) ((void)0)
#else
#define assert(condition)                                                                  \
  ((condition) ? (void)0                                                                   \
               : (void)(fprintf(stderr, "line %d: assertion failed: %s\n", __LINE__, #condition), \
                        __builtin_trap()))
#endif

// A kernel's own assembly would be PTX, and the directives of an assembler can read any file.
#pragma GCC poison asm __asm __asm__
