// SPDX-License-Identifier: Apache-2.0
// Runs programs of a shipped kernel on the CPU device, with arrays that a test makes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/catalogue.h"
#include "server/wire/spec.h"
#include "tuner/device/cpu/cpu_compiler.h"
#include "tuner/device/cpu/host_info.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/loaded_program.h"
#include "tuner/device/cpu/usable_cpus.h"
#include "tuner/kernel/kernel.h"

namespace tune {

class KernelOnCpu : public testing::Test {
 protected:
  void Load(const std::string& name) {
    auto catalogue = LoadCatalogue();
    ASSERT_TRUE(catalogue.ok()) << catalogue.status();
    for (const CatalogueEntry& entry : *catalogue) {
      if (entry.name != name) continue;
      auto kernel = server::ReadKernel(entry.spec_name, entry.spec_text, entry.files);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      kernel_ = *kernel;
    }
    ASSERT_NE(kernel_, nullptr);
    auto compiler = cpu::MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
    auto launcher = cpu::Launcher::Create(cpu::UsableCpus(), cpu::kSharedBytesMax);
    ASSERT_TRUE(launcher.ok()) << launcher.status();
    launcher_ = *std::move(launcher);
  }

  void Compile(const ProgramPlan& plan, std::string* binary) {
    auto compiled = compiler_->Compile(plan.compile);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ASSERT_EQ(compiled->outcome, Outcome::kOk) << compiled->log;
    *binary = compiled->binary;
  }

  // `binary` is of the plan's source and config; scalars of the plan may differ.
  void Launch(const ProgramPlan& plan, const std::string& binary, const BufferResolver& arrays) {
    auto program = cpu::LoadedProgram::Load(WithBinary(plan, binary), arrays);
    ASSERT_TRUE(program.ok()) << program.status();
    auto launched = program->Launch(*launcher_);
    ASSERT_TRUE(launched.ok()) << launched.status();
  }

  std::shared_ptr<const Kernel> kernel_;

 private:
  std::unique_ptr<tune::Compiler> compiler_;
  std::unique_ptr<cpu::Launcher> launcher_;
};

}  // namespace tune
