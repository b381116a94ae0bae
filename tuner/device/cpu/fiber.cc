// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/fiber.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tuner/device/cpu/stack_switch.h"

namespace tune::cpu {
namespace {

// The sanitizers' interface, looked up at run time: a sanitized kernel may be loaded into a runner
// that is not sanitized itself, with the sanitizer preloaded.
struct Sanitizers {
  void (*start_switch)(void** fake_stack, const void* bottom, size_t size) = nullptr;
  void (*finish_switch)(void* fake_stack, const void** bottom, size_t* size) = nullptr;
  void (*unpoison)(const volatile void* address, size_t size) = nullptr;
  void* (*tsan_create)(unsigned flags) = nullptr;
  void* (*tsan_current)() = nullptr;
  void (*tsan_switch)(void* fiber, unsigned flags) = nullptr;
  void (*tsan_destroy)(void* fiber) = nullptr;

  template <class Function>
  static void Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
  Sanitizers() {
    Find(start_switch, "__sanitizer_start_switch_fiber");
    Find(finish_switch, "__sanitizer_finish_switch_fiber");
    Find(unpoison, "__asan_unpoison_memory_region");
    Find(tsan_create, "__tsan_create_fiber");
    Find(tsan_current, "__tsan_get_current_fiber");
    Find(tsan_switch, "__tsan_switch_to_fiber");
    Find(tsan_destroy, "__tsan_destroy_fiber");
  }
  bool Any() const { return start_switch != nullptr || tsan_switch != nullptr; }
};

const Sanitizers& TheSanitizers() {
  static const Sanitizers sanitizers;
  return sanitizers;
}

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// A guard page splits a mapping, and a process may have 65530 mappings: past a quarter of that, on
// hosts with very many cores, stacks go without.
bool TakeGuard() {
  static std::atomic<int> guards{0};
  return guards.fetch_add(1, std::memory_order_relaxed) < 8192;
}

// Set before the first switch if a sanitizer is present.
std::atomic<bool> watched{false};

// `self` has just been resumed by `previous`.
void Arrive(Fiber& self, Fiber& previous) {
  if (!watched.load(std::memory_order_relaxed)) return;
  const Sanitizers& sanitizers = TheSanitizers();
  if (sanitizers.finish_switch == nullptr) return;
  const void* bottom = nullptr;
  size_t size = 0;
  sanitizers.finish_switch(self.fake_stack, &bottom, &size);
  if (previous.memory == nullptr) {
    previous.stack_bottom = bottom;
    previous.stack_bytes = size;
  }
}

void Depart(void** fake_stack, const Fiber& to) {
  if (!watched.load(std::memory_order_relaxed)) return;
  const Sanitizers& sanitizers = TheSanitizers();
  if (sanitizers.start_switch != nullptr) {
    sanitizers.start_switch(fake_stack, to.stack_bottom, to.stack_bytes);
  }
  if (sanitizers.tsan_switch != nullptr) sanitizers.tsan_switch(to.tsan_fiber, 0);
}

// The arguments of a switch.
struct Passage {
  Fiber* from;
  Fiber* to;
};

void Enter(void* data) {
  const Passage passage = *static_cast<const Passage*>(data);
  Arrive(*passage.to, *passage.from);
  passage.to->main(*passage.to);
  std::abort();  // A fiber's main never returns: there is nothing to return to.
}

}  // namespace

Fiber::~Fiber() {
  if (memory == nullptr) return;
  if (tsan_fiber != nullptr) TheSanitizers().tsan_destroy(tsan_fiber);
  if (TheSanitizers().unpoison != nullptr) TheSanitizers().unpoison(memory, memory_bytes);
  munmap(memory, memory_bytes);
}

absl::StatusOr<std::unique_ptr<Fiber>> MakeFiber(unsigned short id, FiberMain main) {
  auto fiber = std::make_unique<Fiber>();
  fiber->id = id;
  const size_t bytes = kStackBytes + PageBytes();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map the stack of thread ", id, " of a block (", bytes,
                     " bytes): raise vm.max_map_count or the memory limit, or use smaller blocks"));
  }
  fiber->memory = memory;
  fiber->memory_bytes = bytes;
  if (TakeGuard()) mprotect(memory, PageBytes(), PROT_NONE);
  fiber->stack_bottom = static_cast<char*>(memory) + PageBytes();
  fiber->stack_bytes = kStackBytes;
  ResetFiber(*fiber, main);
  return fiber;
}

void ResetFiber(Fiber& fiber, FiberMain main) {
  const Sanitizers& sanitizers = TheSanitizers();
  if (sanitizers.unpoison != nullptr) sanitizers.unpoison(fiber.stack_bottom, fiber.stack_bytes);
  if (sanitizers.tsan_create != nullptr) {
    if (fiber.tsan_fiber != nullptr) sanitizers.tsan_destroy(fiber.tsan_fiber);
    fiber.tsan_fiber = sanitizers.tsan_create(0);
  }
  fiber.fake_stack = nullptr;
  fiber.wait = {};
  fiber.main = main;
  // Stacks lie a round number of bytes apart, so their busy ends would share few sets of the first
  // cache. Starting each a little lower spreads them.
  const size_t colour = static_cast<size_t>(fiber.id % 16) * 256;
  char* top = static_cast<char*>(const_cast<void*>(fiber.stack_bottom)) + fiber.stack_bytes;
  fiber.context = PrepareStack(top - colour, fiber.stack_bytes - colour, &Enter);
}

std::unique_ptr<Fiber> MakeHostFiber() {
  auto fiber = std::make_unique<Fiber>();
  watched.store(TheSanitizers().Any(), std::memory_order_relaxed);
  if (TheSanitizers().tsan_current != nullptr) fiber->tsan_fiber = TheSanitizers().tsan_current();
  return fiber;
}

void SwitchFiber(Fiber& from, Fiber& to) {
  Depart(&from.fake_stack, to);
  Passage passage = {&from, &to};
  const auto* arrival =
      static_cast<const Passage*>(SwitchStacks(&from.context, to.context, &passage));
  Arrive(from, *arrival->from);
}

void AbandonFiber(Fiber& from, Fiber& to) {
  // No place to keep the fake stack: the sanitizer frees it.
  Depart(nullptr, to);
  Passage passage = {&from, &to};
  SwitchStacks(&from.context, to.context, &passage);
  std::abort();
}

}  // namespace tune::cpu
