// SPDX-License-Identifier: Apache-2.0
// In the place of the C library's, for <assert.h> and <cassert>, and included ahead of every kernel
// as a GPU's compiler has it built in. As in C, each inclusion looks at NDEBUG anew.
#undef assert
#if defined(NDEBUG)
#define assert(condition) ((void)0)
#else
#define assert(condition) \
  ((condition) ? (void)0 \
               : ::tune_cpu::AssertFailed(#condition, __FILE__, ::tune_cpu::Kept(__LINE__)))
#endif
