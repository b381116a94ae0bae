// SPDX-License-Identifier: Apache-2.0
// The first part of the prelude that every kernel is compiled with on the CPU device: the language
// of CUDA (qualifiers, indices, shared memory) and the code by which the runner enters a kernel.
#pragma once

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "abi.h"

#define TUNE_CPU 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__ inline
// Before the system's own use of the name in an attribute could follow.
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __restrict __restrict__
#define __builtin_assume(condition) ((condition) ? void() : __builtin_unreachable())
#define __trap() __builtin_trap()
#define __brkpt() __builtin_trap()

// How far the runner's State is from the thread pointer.
extern "C" {
__attribute__((visibility("hidden"))) long tune_cpu_state_offset = 0;
}

namespace tune_cpu {

inline __attribute__((always_inline)) char* ThreadPointer() {
  char* pointer;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#else
#error "the CPU device knows x86-64 and AArch64 only"
#endif
  return pointer;
}

inline __attribute__((always_inline)) State& ThisState() {
  return *reinterpret_cast<State*>(ThreadPointer() + tune_cpu_state_offset);
}

// A field of the state that stays the same for as long as a kernel's thread runs. Declared to
// depend on nothing, so that the compiler keeps the value over stores and calls, as it keeps a
// special register of a GPU, and takes it out of loops before it vectorises them. A call costs
// about a nanosecond; inlined, the read would depend on memory again.
template <unsigned kOffset>
__attribute__((const, noinline)) static unsigned ReadConstant() {
  return *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(&ThisState()) + kOffset);
}

}  // namespace tune_cpu

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_in = 1, unsigned y_in = 1, unsigned z_in = 1)
      : x(x_in), y(y_in), z(z_in) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

namespace tune_cpu {

template <unsigned kOffset>
inline __attribute__((always_inline)) uint3 ReadIndex() {
  return {ReadConstant<kOffset>(), ReadConstant<kOffset + 4>(), ReadConstant<kOffset + 8>()};
}

template <class T>
inline __attribute__((always_inline)) T* DynamicShared() {
  return reinterpret_cast<T*>(ThisState().shared);
}

// A dynamic shared array declared outside of any function: a pointer, set before a thread starts.
struct SharedSlot {
  explicit SharedSlot(void (*set_in)(unsigned char*)) : set(set_in), next(first) { first = this; }
  void (*const set)(unsigned char*);
  SharedSlot* const next;
  static inline SharedSlot* first = nullptr;
};

template <class... P, size_t... I>
inline __attribute__((always_inline)) void Call(void (*entry)(P...), void* const* args,
                                                std::index_sequence<I...>) {
  entry(*static_cast<std::remove_cv_t<std::remove_reference_t<P>>*>(args[I])...);
}

// "... [with T = const float*]" or "... [T = const float *]".
template <class T>
constexpr const char* Spelled() {
  return __PRETTY_FUNCTION__;
}

template <class T>
constexpr ParameterFact FactOf() {
  ParameterFact fact = {sizeof(T), {}};
  const char* text = Spelled<T>();
  while (!(text[0] == 'T' && text[1] == ' ' && text[2] == '=')) ++text;
  text += 4;
  unsigned length = 0;
  while (text[length + 1] != 0 && length + 1 < sizeof(fact.type)) {
    fact.type[length] = text[length];
    ++length;
  }
  return fact;
}

template <unsigned kCount>
struct ParameterList {
  unsigned count;
  ParameterFact facts[kCount + 1];
};

template <class... P>
struct Parameters {
  static constexpr unsigned kCount = sizeof...(P);
  static constexpr ParameterList<kCount> kList = {kCount, {FactOf<P>()..., {}}};
};
template <class... P>
Parameters<P...> ParametersOf(void (*)(P...));

// The thread that starts in place of the one that is next, in the opposite order.
inline __attribute__((noinline, cold)) void TakeOpposite(State& state) {
  const Index& dim = state.block_dim;
  const unsigned linear = state.thread_count - 1 - state.linear_thread;
  state.linear_thread = linear;
  state.thread = {linear % dim.x, linear / dim.x % dim.y, linear / dim.x / dim.y};
}

// Runs the threads of a block that have not started, one after the other. A thread that waits is
// suspended inside `call`; another fiber then comes here for the next one.
template <class Function>
inline __attribute__((always_inline)) void RunThreads(Function call) {
  State& state = ThisState();
  while (state.next_thread < state.thread_count) {
    const unsigned linear = state.next_thread++;
    state.linear_thread = linear;
    state.thread = state.next_index;
    if (++state.next_index.x == state.block_dim.x) {
      state.next_index.x = 0;
      if (++state.next_index.y == state.block_dim.y) {
        state.next_index.y = 0;
        ++state.next_index.z;
      }
    }
    if (state.reversed != 0) TakeOpposite(state);
    call();
    const unsigned exited = state.linear_thread;
    state.exited_lanes[exited / kWarpSize] |= 1u << (exited % kWarpSize);
    ++state.exited_count;
    if (state.suspended_count != 0) state.services->thread_exited();
  }
}

}  // namespace tune_cpu

#define threadIdx (::tune_cpu::ReadIndex<offsetof(::tune_cpu::State, thread)>())
#define blockIdx (::tune_cpu::ReadIndex<offsetof(::tune_cpu::State, block)>())
#define blockDim (::tune_cpu::ReadIndex<offsetof(::tune_cpu::State, block_dim)>())
#define gridDim (::tune_cpu::ReadIndex<offsetof(::tune_cpu::State, grid_dim)>())
inline constexpr int warpSize = 32;

// Text that is appended to the source: the symbols that the runner looks up, first the artifact's,
// then each entry's.
#define TUNE_CPU_ARTIFACT()                                                                \
  extern "C" __attribute__((visibility("default"))) void tune_cpu_bind(long offset) {      \
    tune_cpu_state_offset = offset;                                                        \
  }                                                                                        \
  extern "C" __attribute__((visibility("default"))) void tune_cpu_set_shared(              \
      unsigned char* base) {                                                               \
    for (auto* slot = ::tune_cpu::SharedSlot::first; slot != nullptr; slot = slot->next) { \
      slot->set(base);                                                                     \
    }                                                                                      \
  }                                                                                        \
  extern "C" __attribute__((visibility("default"))) const unsigned tune_cpu_abi =          \
      ::tune_cpu::kAbiVersion;

// `name` is what the binary calls it; then the entry as the spec has it, which may have commas and
// be a macro's name. `TuneCpuThread` is not inlined, so that what the optimiser knows of one
// thread's indices is not taken for the next one's.
#define TUNE_CPU_ENTRY(name, ...)                                                              \
  namespace {                                                                                  \
  using TuneCpuParameters_##name = decltype(::tune_cpu::ParametersOf(&__VA_ARGS__));           \
  __attribute__((noinline)) void TuneCpuThread_##name(void* const* args) {                     \
    ::tune_cpu::Call(&__VA_ARGS__, args,                                                       \
                     std::make_index_sequence<TuneCpuParameters_##name::kCount>());            \
    __asm__ volatile("" ::: "memory");                                                         \
  }                                                                                            \
  }                                                                                            \
  extern "C" __attribute__((visibility("default"))) void tune_cpu_threads_##name(              \
      void* const* args) {                                                                     \
    ::tune_cpu::RunThreads([args] { TuneCpuThread_##name(args); });                            \
  }                                                                                            \
  extern "C" __attribute__((visibility("default"))) const ::tune_cpu::ParameterList<           \
      TuneCpuParameters_##name::kCount> tune_cpu_parameters_##name =                           \
      TuneCpuParameters_##name::kList;

// Exports the address of a variable that programs fill.
#define TUNE_CPU_SYMBOL(pointer, ...)                                                     \
  static_assert(!std::is_const_v<std::remove_all_extents_t<decltype(__VA_ARGS__)>>,      \
                "a symbol of the spec cannot be const: nothing could be written to it"); \
  extern "C" __attribute__((visibility("default"))) void* const pointer = &__VA_ARGS__;
