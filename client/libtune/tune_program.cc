// SPDX-License-Identifier: Apache-2.0
// Artifacts and their launches, of the C interface.
#include <algorithm>
#include <memory>
#include <utility>

#include "client/libtune/c_interface.h"
#include "client/libtune/program.h"
#include "tune/tune.h"

using tune::library::Copy;
using tune::library::Fail;
using tune::library::Guarded;
using tune::library::Program;

struct tune_program {
  const Program parsed;
};

namespace {

tune_arg ArgOf(const Program::Arg& from) noexcept {
  return {.kind = static_cast<tune_arg_kind>(from.kind),
          .name = from.name.c_str(),
          .dtype = from.dtype.c_str(),
          .role = from.role.c_str(),
          .count = from.count,
          .value = from.value.data(),
          .value_bytes = from.value.size(),
          .buffer = from.buffer.c_str(),
          .rank = from.dims.size(),
          .dims = from.dims.data(),
          .strides_bytes = from.strides_bytes.data(),
          .box = from.box.data(),
          .swizzle_bytes = from.swizzle_bytes,
          .l2_promotion_bytes = from.l2_promotion_bytes};
}

}  // namespace

tune_status tune_artifact(const tune_client* client, const char* digest, void** data,
                          size_t* bytes) {
  return Guarded([&] {
    if (client == nullptr || digest == nullptr || data == nullptr || bytes == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "a client, a digest, and places for what comes");
    }
    *data = nullptr;
    *bytes = 0;
    const auto file = client->client->Artifact(digest);
    if (!file.ok()) return Fail(file.status());
    *data = Copy(*file);
    *bytes = file->size();
    return TUNE_OK;
  });
}

tune_status tune_program_open(const tune_client* client, const char* digest,
                              tune_program** program) {
  return Guarded([&] {
    if (client == nullptr || digest == nullptr || program == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "a client, a digest, and a place for the program");
    }
    *program = nullptr;
    const auto file = client->client->Artifact(digest);
    if (!file.ok()) return Fail(file.status());
    auto parsed = tune::library::ParseProgram(*file);
    if (!parsed.ok()) return Fail(parsed.status());
    *program = new tune_program{*std::move(parsed)};
    return TUNE_OK;
  });
}

void tune_program_close(tune_program* program) { delete program; }

tune_status tune_program_step(const tune_program* program, size_t index, tune_step* step) {
  const Program& parsed = program->parsed;
  if (index >= parsed.steps.size()) return Fail(TUNE_NOT_FOUND, "no such step");
  const Program::Step& from = parsed.steps[index];
  const std::string& binary = parsed.binaries[from.unit];
  *step = {.entry = from.entry.c_str(), .binary = binary.c_str(), .binary_bytes = binary.size()};
  std::copy(from.grid.begin(), from.grid.end(), step->grid);
  std::copy(from.block.begin(), from.block.end(), step->block);
  std::copy(from.cluster.begin(), from.cluster.end(), step->cluster);
  step->shared_bytes = from.shared_bytes;
  step->cooperative = from.cooperative ? 1 : 0;
  step->programmatic_dependent_launch = from.programmatic_dependent_launch ? 1 : 0;
  step->resident = from.resident ? 1 : 0;
  step->arg_count = from.args.size();
  step->zero_count = from.zero.size();
  return TUNE_OK;
}

tune_status tune_program_arg(const tune_program* program, size_t step, size_t index,
                             tune_arg* arg) {
  const auto& steps = program->parsed.steps;
  if (step >= steps.size() || index >= steps[step].args.size()) {
    return Fail(TUNE_NOT_FOUND, "no such arg");
  }
  *arg = ArgOf(steps[step].args[index]);
  return TUNE_OK;
}

tune_status tune_program_zero(const tune_program* program, size_t step, size_t index,
                              tune_arg* arg) {
  const auto& steps = program->parsed.steps;
  if (step >= steps.size() || index >= steps[step].zero.size()) {
    return Fail(TUNE_NOT_FOUND, "no such buffer");
  }
  *arg = ArgOf(steps[step].zero[index]);
  return TUNE_OK;
}

tune_status tune_program_symbol(const tune_program* program, size_t index, tune_symbol* symbol) {
  const Program& parsed = program->parsed;
  if (index >= parsed.symbols.size()) return Fail(TUNE_NOT_FOUND, "no such symbol");
  const Program::Symbol& from = parsed.symbols[index];
  const std::string& binary = parsed.binaries[from.unit];
  *symbol = {from.variable.c_str(), binary.c_str(), binary.size(), ArgOf(from.buffer)};
  return TUNE_OK;
}
