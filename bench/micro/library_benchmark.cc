// SPDX-License-Identifier: Apache-2.0
// Measures the cost of libtune to a job that has a snapshot: TUNE_SNAPSHOT names it, by its digest
// if the node's cache has it. bench/studies/service.py runs it on a thousand records of the kernel
// `scale`.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "tune/tune.h"

namespace {

tune_client* Open(benchmark::State& state) {
  tune_options options = {};
  options.size = sizeof(options);
  options.deadline = -1;
  tune_client* client = nullptr;
  if (tune_open(&options, &client) != TUNE_OK || tune_client_kernel(client, 0) == nullptr) {
    state.SkipWithError("no snapshot: set TUNE_SNAPSHOT");
  }
  return client;
}

void Ask(benchmark::State& state, tune_client* client, int64_t n) {
  const tune_dim dims[] = {{"n", n}, {"mode", 0}};
  tune_question question = {};
  question.size = sizeof(question);
  question.kernel = "scale";
  question.device = "NVIDIA H200";
  question.dims = dims;
  question.dim_count = 2;
  tune_answer* answer = nullptr;
  if (tune_best(client, &question, &answer) != TUNE_OK) state.SkipWithError(tune_error());
  benchmark::DoNotOptimize(answer);
  tune_answer_free(answer);
}

// A question that was asked before.
void BM_Hit(benchmark::State& state) {
  static tune_client* const client = Open(state);
  for (auto _ : state) Ask(state, client, 4096);
}
BENCHMARK(BM_Hit)->ThreadRange(1, 2);

// A question that was not.
void BM_New(benchmark::State& state) {
  tune_client* const client = Open(state);
  int64_t n = 0;
  for (auto _ : state) Ask(state, client, ++n);
  tune_close(client);
}
BENCHMARK(BM_New);

// Each of a batch of questions that were asked before.
void BM_Batch(benchmark::State& state) {
  static tune_client* const client = Open(state);
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<tune_dim> dims(count);
  std::vector<tune_question> questions(count);
  std::vector<tune_answer*> answers(count);
  for (size_t i = 0; i < count; ++i) {
    dims[i] = {"n", static_cast<int64_t>(64 * (i + 1))};
    questions[i] = {sizeof(tune_question), "scale", nullptr, "NVIDIA H200", &dims[i], 1, 0};
  }
  for (auto _ : state) {
    if (tune_best_batch(client, questions.data(), count, answers.data()) != TUNE_OK) {
      state.SkipWithError(tune_error());
    }
    for (tune_answer* answer : answers) tune_answer_free(answer);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Batch)->Arg(100);

// From the node's cache, until there is a client.
void BM_Start(benchmark::State& state) {
  for (auto _ : state) tune_close(Open(state));
}
BENCHMARK(BM_Start)->Unit(benchmark::kMillisecond);

// Adds the first answer.
void BM_Open(benchmark::State& state) {
  for (auto _ : state) {
    tune_client* const client = Open(state);
    Ask(state, client, 4096);
    tune_close(client);
  }
}
BENCHMARK(BM_Open)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
