// SPDX-License-Identifier: Apache-2.0
// Compiles kernels written in Triton, by two compilers that never work in one process: the first
// runs a kernel's Python as far as TTIR, Triton's intermediate form; the second makes a cubin of
// TTIR and runs no kernel's Python. Neither needs a GPU, a driver or PyTorch.
#pragma once

#include <memory>
#include <string>

#include "tuner/device/compiler.h"
#include "tuner/device/triton/installation.h"

namespace tune::triton {

// Compiles Language::kTriton. The binary of an artifact is TTIR text without source locations; the
// parameters of its entry are those that the kernel takes, by name. `scratch_dir` must be a
// writable folder; empty: TMPDIR.
std::unique_ptr<Compiler> MakeFrontEnd(Installation installation, std::string scratch_dir = "");

// Compiles Language::kTtir. The binary is a cubin, whose own list of parameters was compared with
// the plan's arguments; the entry says how it is launched.
std::unique_ptr<Compiler> MakeTtirCompiler(Installation installation, std::string scratch_dir = "");

}  // namespace tune::triton
