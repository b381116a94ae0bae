// SPDX-License-Identifier: Apache-2.0
// How a step begins while the one before it ends: its launch is a programmatic dependent one, for
// GPUs of sm_90 and later. Elsewhere steps run one after the other, and nothing here does anything.
#pragma once

// By the step before: the next one's blocks may take their places once each of its own has come
// here or has ended.
__device__ __forceinline__ void LetNextStepBegin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// By the next step, before it touches what the one before writes: that has ended, with all its
// stores. Its parameters for that are not const __restrict__, which would say that nobody writes
// there while the kernel runs.
__device__ __forceinline__ void AwaitStepBefore() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
