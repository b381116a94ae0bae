// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/stack_switch.h"

#include <cstdint>

#if defined(__x86_64__)

// Registers that the System V ABI lets a callee change need not be saved. The floating-point
// control words must be kept, and no code here changes them. Arguments: rdi, rsi, rdx; result: rax.
__asm__(R"(
  .text
  .p2align 4
  .type tune_cpu_switch_stacks, @function
tune_cpu_switch_stacks:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  movq %rdx, %rax
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
  .size tune_cpu_switch_stacks, . - tune_cpu_switch_stacks

  .p2align 4
  .type tune_cpu_begin_stack, @function
tune_cpu_begin_stack:
  .cfi_startproc
  .cfi_undefined rip
  movq %rax, %rdi
  call *%rbx
  ud2
  .cfi_endproc
  .size tune_cpu_begin_stack, . - tune_cpu_begin_stack
)");

extern "C" {
void* tune_cpu_switch_stacks(void** from, void* to, void* data);
void tune_cpu_begin_stack();
}

namespace tune::cpu {

void* PrepareStack(void* top, size_t, void (*entry)(void* data)) {
  // The frame that tune_cpu_switch_stacks leaves: six registers and the return address. Once that
  // is popped the stack is aligned to 16 bytes, as before a call.
  auto* frame = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(top) / 16 * 16) - 9;
  for (int i = 0; i < 9; ++i) frame[i] = 0;
  frame[4] = reinterpret_cast<uint64_t>(entry);  // rbx
  frame[6] = reinterpret_cast<uint64_t>(&tune_cpu_begin_stack);
  return frame;
}

void* SwitchStacks(void** from, void* to, void* data) {
  return tune_cpu_switch_stacks(from, to, data);
}

}  // namespace tune::cpu

#else

#include <boost/context/detail/fcontext.hpp>

namespace tune::cpu {
namespace {

namespace context = boost::context::detail;

// The point at which a stack was left, in a frame on that stack; of a new stack, at its top.
struct Place {
  context::fcontext_t context = nullptr;
  void (*entry)(void* data) = nullptr;
};

// Boost passes the resumed context the point at which the other can be resumed; it is stored here.
struct Message {
  Place* left = nullptr;
  Place* reached = nullptr;
  void* data = nullptr;
};

Message Receive(context::transfer_t transfer) {
  const Message message = *static_cast<const Message*>(transfer.data);
  message.left->context = transfer.fctx;
  return message;
}

void Begin(context::transfer_t transfer) {
  const Message message = Receive(transfer);
  message.reached->entry(message.data);
}

}  // namespace

void* PrepareStack(void* top, size_t bytes, void (*entry)(void* data)) {
  auto* place = reinterpret_cast<Place*>(reinterpret_cast<uintptr_t>(top) / 16 * 16) - 1;
  place->entry = entry;
  place->context = context::make_fcontext(place, bytes - 2 * sizeof(Place), Begin);
  return place;
}

void* SwitchStacks(void** from, void* to, void* data) {
  Place here;
  *from = &here;
  Message message = {&here, static_cast<Place*>(to), data};
  return Receive(context::jump_fcontext(message.reached->context, &message)).data;
}

}  // namespace tune::cpu

#endif
