// SPDX-License-Identifier: Apache-2.0
// What a job without a compiler does: takes the very binary that was measured, or says why not.
//
//   tuned_binary softmax rows=4096 cols=1024
//
// A job that has a compiler passes the macros to it instead; see ../c.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tune/tune.hpp>

namespace {

std::map<std::string, int64_t> DimsOf(int argc, char** argv) {
  std::map<std::string, int64_t> dims;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = std::min(word.find('='), word.size());
    const char* const end = word.data() + word.size();
    int64_t value = 0;
    const auto read = std::from_chars(std::min(word.data() + equals + 1, end), end, value);
    if (read.ec != std::errc() || read.ptr != end) {
      throw std::invalid_argument("'" + word + "' is no DIM=VALUE");
    }
    dims[word.substr(0, equals)] = value;
  }
  return dims;
}

int Run(const tune::Question& question) {
  const tune::Client client = tune::Client::Open();
  const tune::Answer tuned = client.Best(question);
  std::printf("%s\n", tuned.reason().c_str());
  // A binary is for one problem: only an exact answer is its.
  const std::string artifact = tuned.match() == TUNE_MATCH_EXACT ? tuned.record().artifact : "";
  if (artifact.empty()) {
    std::printf("no binary; compile with");
    for (const auto& [param, value] : tuned.Macros()) {
      std::printf(" -D%s=%s", param.c_str(), value.c_str());
    }
    std::printf("\n%s\n", client.Explain(question).c_str());
    return 0;
  }
  // What cuModuleLoadData and cuLaunchKernelEx take; on the CPU device, dlopen.
  const auto program = client.Program(artifact);
  tune_step step;
  for (size_t i = 0; tune_program_step(program.get(), i, &step) == TUNE_OK; ++i) {
    std::printf("%s of a binary of %zu bytes for %s: grid %u %u %u, block %u %u %u, shared %u\n",
                step.entry, step.binary_bytes, tuned.target().c_str(), step.grid[0], step.grid[1],
                step.grid[2], step.block[0], step.block[1], step.block[2], step.shared_bytes);
    tune_arg arg;
    for (size_t j = 0; tune_program_arg(program.get(), i, j, &arg) == TUNE_OK; ++j) {
      const bool is_buffer = arg.kind == TUNE_ARG_BUFFER;
      std::printf("  %s: %s%s\n", arg.name, arg.dtype, is_buffer ? " pointer" : "");
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s KERNEL DIM=VALUE...\n", argv[0]);
    return 2;
  }
  try {
    return Run({argv[1], DimsOf(argc, argv)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
