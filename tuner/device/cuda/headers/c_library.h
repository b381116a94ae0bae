// SPDX-License-Identifier: Apache-2.0
// Of <cstdio>, <cstdlib>, <cstring>, <ctime> and <cstddef>, what is built in for kernels on GPUs.
#pragma once

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
namespace std {
using ::clock;
using ::clock_t;
using ::free;
using ::malloc;
using ::memcpy;
using ::memset;
using ::printf;
using ::ptrdiff_t;
using ::size_t;
using nullptr_t = decltype(nullptr);
}  // namespace std
