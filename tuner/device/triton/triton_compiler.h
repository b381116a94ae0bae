// SPDX-License-Identifier: Apache-2.0
// Kernels written in Triton, in two compilers that are never at work in one process: the first
// runs a kernel's Python as far as TTIR, Triton's intermediate form; the second makes a cubin of
// TTIR and runs nobody's Python. Neither needs a GPU, a driver or PyTorch.
#pragma once

#include <memory>
#include <string>

#include "tuner/device/compiler.h"
#include "tuner/device/triton/installation.h"

namespace tune::triton {

// Of Language::kTriton. The binary of an artifact is TTIR text without places; the parameters of
// its entry are those that the kernel takes, by name. `scratch_dir` must be a folder that can be
// written to; empty: TMPDIR.
std::unique_ptr<Compiler> MakeFrontEnd(Installation installation, std::string scratch_dir = "");

// Of Language::kTtir. The binary is a cubin, whose own list of parameters was compared with the
// plan's arguments; the entry says how it is launched.
std::unique_ptr<Compiler> MakeTtirCompiler(Installation installation, std::string scratch_dir = "");

}  // namespace tune::triton
