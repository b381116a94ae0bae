// SPDX-License-Identifier: Apache-2.0
// The parts of <cstdio>, <cstdlib>, <cstring>, <ctime> and <cstddef> that are built in on GPUs.
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
