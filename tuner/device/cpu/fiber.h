// SPDX-License-Identifier: Apache-2.0
// Fibers: a kernel's threads, many to one OS thread. A switch costs a few nanoseconds. Every switch
// is reported to address and thread sanitizers if they are in the process, whether this file was
// compiled for them or they came with a sanitized kernel.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/cpu/prelude/abi.h"

namespace tune::cpu {

inline constexpr size_t kStackBytes = 256 * 1024;

// The reason why a fiber waits, for the message if nothing ever ends the wait.
struct Wait {
  enum class Kind { kNone, kBarrier, kWarp, kYield } kind = Kind::kNone;
  unsigned mask = 0;
  int line = 0;
};

struct Fiber;
using FiberMain = void (*)(Fiber& self);

// Not thread-safe; belongs to one OS thread. The OS thread's own stack is a Fiber too, without
// `memory`.
struct Fiber {
  void* context = nullptr;  // what SwitchStacks needs to go on here
  FiberMain main = nullptr;
  void* memory = nullptr;  // the mapping, guard page first
  size_t memory_bytes = 0;
  unsigned short id = 0;
  tune_cpu::Index thread = {};
  unsigned linear_thread = 0;
  Wait wait;
  // The sanitizers' state of this fiber.
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
  void* tsan_fiber = nullptr;

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();
};

// RESOURCE_EXHAUSTED if the stack cannot be mapped.
absl::StatusOr<std::unique_ptr<Fiber>> MakeFiber(unsigned short id, FiberMain main);
// The fiber begins anew at its next switch; what was on its stack is forgotten.
void ResetFiber(Fiber& fiber, FiberMain main);
// A fiber for the calling OS thread's own stack.
std::unique_ptr<Fiber> MakeHostFiber();

// Goes on in `to`; returns when something switches back to `from`.
void SwitchFiber(Fiber& from, Fiber& to);
// Goes on in `to`; `from` is not to be resumed before ResetFiber.
[[noreturn]] void AbandonFiber(Fiber& from, Fiber& to);

}  // namespace tune::cpu
