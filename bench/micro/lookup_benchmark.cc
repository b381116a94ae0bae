// SPDX-License-Identifier: Apache-2.0
// Time of one look-up among a million records, and of a publish. Goal: under 5 us for every kind of
// answer.
#include <benchmark/benchmark.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "client/cli/benchmark_run.h"
#include "lookup/index.h"

namespace tune::server {
namespace {

constexpr int kKernels = 10;
constexpr int kDevices = 4;
constexpr int64_t kRecords = 1'000'000;

// Dims as attention has them: two bucketed or nearest sizes and a batch, two exact modes.
lookup::Query RandomQuery(std::mt19937& random) {
  auto size = [&](int64_t most) { return static_cast<int64_t>(random() % most) + 1; };
  lookup::Query query{.kernel_name = absl::StrCat("kernel_", random() % kKernels),
                      .device_name = absl::StrCat("NVIDIA device ", random() % kDevices),
                      .target = "sm_90a"};
  query.problem = {.dims = {{"seq_q", size(131072)},
                            {"seq_k", size(131072)},
                            {"batch", size(256)},
                            {"head_dim", random() % 2 == 0 ? 64 : 128},
                            {"causal", static_cast<int64_t>(random() % 2)}},
                   .dtype = DType::kBF16};
  return query;
}

lookup::Record RandomRecord(int64_t id, std::mt19937& random) {
  lookup::Query query = RandomQuery(random);
  lookup::Record record{.id = id, .kernel_name = query.kernel_name};
  record.key = {.kernel_hash = absl::StrCat("hash of ", query.kernel_name),
                .problem = query.problem,
                .device_name = query.device_name,
                .target = query.target};
  return record;
}

lookup::KernelPolicy Policy(const std::string& kernel_name) {
  return {.kernel_name = kernel_name,
          .dims = {{"seq_k", lookup::DimMatch::kBucketed},
                   {"head_dim", lookup::DimMatch::kExact},
                   {"causal", lookup::DimMatch::kExact}}};
}

std::shared_ptr<const lookup::Index> BuildIndex() {
  std::mt19937 random(1);
  std::vector<lookup::Record> records;
  records.reserve(kRecords);
  for (int64_t id = 1; id <= kRecords; ++id) records.push_back(RandomRecord(id, random));
  std::vector<lookup::KernelPolicy> policies;
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    policies.push_back(Policy(absl::StrCat("kernel_", kernel)));
  }
  return lookup::Index::Build(std::move(records), policies);
}

const std::shared_ptr<const lookup::Index>& SharedIndex() {
  static const std::shared_ptr<const lookup::Index> index = BuildIndex();
  return index;
}

const lookup::Index& Index() { return *SharedIndex(); }

void Run(benchmark::State& state, lookup::Match match, const std::vector<lookup::Query>& queries) {
  const lookup::Index& index = Index();
  size_t next = 0;
  int64_t as_expected = 0;
  for (auto _ : state) {
    lookup::Answer answer = index.Lookup(queries[next++ % queries.size()]);
    as_expected += answer.match == match;
    benchmark::DoNotOptimize(answer);
  }
  // How many of the answers were of the kind that is named: 1 is all.
  state.counters["as_named"] =
      static_cast<double>(as_expected) / static_cast<double>(state.iterations());
}

std::vector<lookup::Query> ExactQueries() {
  std::mt19937 random(2);
  const std::vector<lookup::RecordPtr> records = Index().Records();
  std::vector<lookup::Query> queries;
  for (int i = 0; i < 4096; ++i) {
    const lookup::Record& record = *records[random() % records.size()];
    queries.push_back({.kernel_name = record.kernel_name,
                       .problem = record.key.problem,
                       .device_name = record.key.device_name,
                       .target = record.key.target});
  }
  return queries;
}

void BM_LookupExact(benchmark::State& state) { Run(state, lookup::Match::kExact, ExactQueries()); }
BENCHMARK(BM_LookupExact);

void BM_LookupBucketed(benchmark::State& state) {
  std::vector<lookup::Query> queries = ExactQueries();
  for (lookup::Query& query : queries) {
    int64_t& seq_k = query.problem.dims[1].second;
    seq_k += (seq_k & (seq_k - 1)) == 0 ? -1 : 1;  // stays in the bucket
  }
  Run(state, lookup::Match::kBucketed, queries);
}
BENCHMARK(BM_LookupBucketed);

void BM_LookupNearest(benchmark::State& state) {
  std::mt19937 random(3);
  std::vector<lookup::Query> queries;
  for (int i = 0; i < 4096; ++i) queries.push_back(RandomQuery(random));
  Run(state, lookup::Match::kNearest, queries);
}
BENCHMARK(BM_LookupNearest);

void BM_LookupOtherDevice(benchmark::State& state) {
  std::vector<lookup::Query> queries = ExactQueries();
  for (lookup::Query& query : queries) query.device_name = "NVIDIA device not seen before";
  Run(state, lookup::Match::kOtherDevice, queries);
}
BENCHMARK(BM_LookupOtherDevice);

// The work of a daemon's start, less reading the records from its file.
void BM_BuildIndex(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(BuildIndex());
}
BENCHMARK(BM_BuildIndex)->Unit(benchmark::kMillisecond);

// Adds a record, each time to the index with all before it.
void BM_Publish(benchmark::State& state) {
  std::shared_ptr<const lookup::Index> index = SharedIndex();
  std::mt19937 random(4);
  int64_t id = kRecords;
  for (auto _ : state) {
    lookup::Record record = RandomRecord(++id, random);
    const lookup::KernelPolicy policy = Policy(record.kernel_name);
    index = index->With(std::move(record), policy);
  }
}
BENCHMARK(BM_Publish)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tune::server

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tune::client::RunBenchmarks();
  benchmark::Shutdown();
}
