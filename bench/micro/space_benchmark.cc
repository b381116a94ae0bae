// SPDX-License-Identifier: Apache-2.0
// Building spaces from the text of their definitions, and asking them. Every definition is checked
// against its count and checksum first.
//
//   space_benchmark [--benchmark_...] [DEFINITION.json ...]      (default: bench/data/spaces)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/benchmark_run.h"
#include "tuner/space/definition_json.h"
#include "tuner/space/space.h"

namespace tune {
namespace {

struct Definition {
  std::string name;
  std::string text;
  uint64_t valid_count = 0;
  std::string checksum;
};

absl::StatusOr<Space> BuildSpace(const std::string& text) {
  absl::StatusOr<SpaceDefinition> definition = ParseSpaceDefinition(text);
  if (!definition.ok()) return definition.status();
  return Space::Build(*definition);
}

// Every config as a row of values, as a program that runs them would want them. Integers only.
std::vector<int64_t> ListValues(const Space& space) {
  const size_t width = space.params().size();
  std::vector<std::vector<int64_t>> values(width);
  for (size_t i = 0; i < width; ++i) {
    for (const Value& value : space.params()[i].values) {
      values[i].push_back(std::get<int64_t>(value));
    }
  }
  constexpr uint64_t kRows = 512;
  std::vector<uint16_t> digits(kRows * width);
  std::vector<int64_t> list(space.size() * width);
  int64_t* out = list.data();
  for (uint64_t first = 0; first < space.size(); first += kRows) {
    const uint64_t count = std::min(kRows, space.size() - first);
    space.DigitsOf(first, count, absl::MakeSpan(digits).first(count * width));
    const uint16_t* digit = digits.data();
    for (uint64_t row = 0; row < count; ++row) {
      for (size_t i = 0; i < width; ++i) *out++ = values[i][*digit++];
    }
  }
  return list;
}

// Sum of the FNV-1a hashes of the configs' texts, whose order does not matter.
std::string Checksum(const std::vector<int64_t>& list, size_t width) {
  uint64_t sum = 0;
  std::string text;
  for (size_t at = 0; at < list.size(); at += width) {
    text.clear();
    for (size_t i = 0; i < width; ++i) absl::StrAppend(&text, i > 0 ? "," : "", list[at + i]);
    uint64_t hash = 0xcbf29ce484222325;
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    sum += hash;
  }
  return absl::StrFormat("%016x", sum);
}

// Exits if a definition does not give what it says.
Definition Load(const std::string& path) {
  std::ifstream file(path);
  Definition definition;
  definition.text.assign(std::istreambuf_iterator<char>(file), {});
  const auto json = nlohmann::json::parse(definition.text, nullptr, false);
  const absl::StatusOr<Space> space = BuildSpace(definition.text);
  if (!space.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), space.status().ToString().c_str());
    std::exit(1);
  }
  definition.name = std::filesystem::path(path).stem().string();
  definition.valid_count = json.value("valid_count", space->size());
  definition.checksum = json.value("valid_checksum_fnv1a64_sum", "");
  const std::string checksum = Checksum(ListValues(*space), space->params().size());
  const bool is_right = space->size() == definition.valid_count &&
                        (definition.checksum.empty() || definition.checksum == checksum);
  std::fprintf(stderr, "%s: %llu configs, checksum %s, %zu bytes: %s\n", definition.name.c_str(),
               static_cast<unsigned long long>(space->size()), checksum.c_str(), space->bytes(),
               is_right ? "as expected" : "WRONG");
  if (!is_right) std::exit(1);
  return definition;
}

void Ready(benchmark::State& state, const Definition& definition) {
  uint64_t sum = 0;
  for (auto _ : state) {
    const Space space = BuildSpace(definition.text).value();
    sum += space.DigitsAt(space.size() / 2)[0];
  }
  benchmark::DoNotOptimize(sum);
}

void List(benchmark::State& state, const Definition& definition) {
  for (auto _ : state) {
    const std::vector<int64_t> list = ListValues(BuildSpace(definition.text).value());
    benchmark::DoNotOptimize(list.data());
  }
}

// Indices that are all over the space, the same in every run.
template <typename Ask>
void AskMany(benchmark::State& state, const Definition& definition, Ask ask) {
  const Space space = BuildSpace(definition.text).value();
  uint64_t index = 0;
  for (auto _ : state) {
    index = (index + 0x9e3779b97f4a7c15) % space.size();
    ask(space, index);
  }
}

void DigitsAt(benchmark::State& state, const Definition& definition) {
  std::vector<uint16_t> digits;
  AskMany(state, definition, [&](const Space& space, uint64_t index) {
    digits.resize(space.params().size());
    space.DigitsAt(index, absl::MakeSpan(digits));
    benchmark::DoNotOptimize(digits.data());
  });
}

void IndexOfDigits(benchmark::State& state, const Definition& definition) {
  std::vector<std::vector<uint16_t>> some;
  AskMany(state, definition, [&](const Space& space, uint64_t index) {
    while (some.size() < 64) some.push_back(space.DigitsAt(index / 64 * some.size()));
    benchmark::DoNotOptimize(space.IndexOfDigits(some[index % 64]));
  });
}

void Neighbours(benchmark::State& state, const Definition& definition) {
  std::vector<uint64_t> neighbours;
  AskMany(state, definition, [&](const Space& space, uint64_t index) {
    space.Neighbours(index, Neighbourhood::kHamming, neighbours);
    benchmark::DoNotOptimize(neighbours.data());
  });
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(TUNE_SPACES_DIR)) {
      if (entry.path().extension() == ".json") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<tune::Definition> definitions;
  for (const std::string& path : paths) definitions.push_back(tune::Load(path));
  const std::pair<const char*, void (*)(benchmark::State&, const tune::Definition&)> kinds[] = {
      {"Ready", tune::Ready},
      {"List", tune::List},
      {"DigitsAt", tune::DigitsAt},
      {"IndexOfDigits", tune::IndexOfDigits},
      {"Neighbours", tune::Neighbours}};
  for (const auto& [kind, run] : kinds) {
    for (const tune::Definition& definition : definitions) {
      benchmark::RegisterBenchmark(
          absl::StrCat(kind, "/", definition.name).c_str(),
          [run = run, &definition](benchmark::State& state) { run(state, definition); });
    }
  }
  tune::client::RunBenchmarks();
}
