// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compile_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/worker/convert.h"
#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

worker::v1::Artifact Variant(const std::string& binary) {
  Artifact variant;
  variant.binary = binary;
  variant.log = "a log";
  variant.resources.registers = 42;
  variant.resources.binary_sha256 = "abc";
  variant.seconds = 0.5;
  return ToWire(std::move(variant));
}

std::string Key(int i) { return CompileKey({.source_text = std::to_string(i)}, "compiler"); }

std::vector<fs::path> Files(const TempDir& dir) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir.path())) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

TEST(CompileKeyTest, EverythingThatMattersChangesIt) {
  const CompilePlan plan = {.target = "cpu",
                            .source_name = "a.cu",
                            .source_text = "text",
                            .headers = {{"h", "H"}},
                            .defines = {{"A", "1"}, {"B", "2"}},
                            .options = {"-x"},
                            .entries = {"e"}};
  std::vector<CompilePlan> plans(15, plan);
  plans[1].target = "sm_80";
  plans[2].source_name = "b.cu";
  plans[3].source_text = "text ";
  plans[4].headers[0].text = "I";
  plans[5].headers[0].name = "i";
  plans[6].defines = {{"B", "2"}, {"A", "1"}};
  plans[7].defines[0] = {"A", "11"};
  plans[8].options = {"-x", "-y"};
  plans[9].entries = {"f"};
  plans[10].headers.clear();
  plans[11].defines = {{"A", "1"}};
  plans[11].options = {"B", "2", "-x"};
  plans[12].language = Language::kPtx;
  plans[13].entries = {"e", "f"};
  plans[14].origin = "alice";
  std::set<std::string> keys;
  for (const CompilePlan& each : plans) keys.insert(CompileKey(each, "g++ 12"));
  EXPECT_EQ(keys.size(), plans.size());
  EXPECT_FALSE(keys.contains(CompileKey(plan, "g++ 13")));
  EXPECT_TRUE(keys.contains(CompileKey(plan, "g++ 12")));
}

TEST(CompileKeyTest, AReferenceIsOfItsInputs) {
  CompilePlan plan = {.language = Language::kNumpy, .target = "cpu", .entries = {"right"}};
  plan.call.buffers = {{.name = "x"}};
  std::vector<CompilePlan> plans(6, plan);
  plans[1].call.seed = 8;
  plans[2].call.buffers[0].fill.high = 2;
  plans[3].call.buffers[0].fill.lengths = {3, 4};
  plans[4].call.buffers[0].fill.lengths = {34};
  plans[5].call.files = {{.buffer = "x", .elements = "abcd"}};
  std::set<std::string> keys;
  for (const CompilePlan& each : plans) keys.insert(CompileKey(each, "NumPy 2"));
  EXPECT_EQ(keys.size(), plans.size());
}

TEST(CompileCacheTest, GivesBackWhatWasPut) {
  TempDir dir;
  auto cache = CompileCache::Open(dir.path()).value();
  EXPECT_FALSE(cache->Get(Key(1)).has_value());
  ASSERT_TRUE(cache->Put(Key(1), Variant("binary")).ok());
  auto again = CompileCache::Open(dir.path()).value();
  const std::optional<Artifact> hit = again->Get(Key(1));
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->binary, "binary");
  EXPECT_EQ(hit->log, "a log");
  EXPECT_EQ(hit->resources.registers, 42);
  EXPECT_EQ(hit->seconds, 0.5);
  EXPECT_FALSE(again->Get(Key(2)).has_value());
}

TEST(CompileCacheTest, NothingIsLeftOfAClearedOne) {
  TempDir dir;
  auto cache = CompileCache::Open(dir.path()).value();
  ASSERT_TRUE(cache->Put(Key(1), Variant("binary")).ok());
  ASSERT_TRUE(cache->Put(Key(2), Variant("another")).ok());
  std::ofstream(dir.path() + "/of-an-older-daemon") << "an entry";
  const int64_t bytes = cache->bytes();
  EXPECT_EQ(cache->Clear().value(), bytes + 8);
  EXPECT_FALSE(cache->Get(Key(1)).has_value());
  EXPECT_TRUE(Files(dir).empty());
  EXPECT_EQ(cache->bytes(), 0);
  ASSERT_TRUE(cache->Put(Key(1), Variant("binary")).ok());
  EXPECT_TRUE(cache->Get(Key(1)).has_value());
  EXPECT_GT(cache->bytes(), 0);
}

TEST(CompileCacheTest, KeepsFailures) {
  TempDir dir;
  auto cache = CompileCache::Open(dir.path()).value();
  Artifact failed;
  failed.outcome = Outcome::kCompileFailed;
  failed.log = "error: no";
  ASSERT_TRUE(cache->Put(Key(1), ToWire(failed)).ok());
  EXPECT_EQ(cache->Get(Key(1))->outcome, Outcome::kCompileFailed);
  EXPECT_EQ(cache->Get(Key(1))->log, "error: no");
}

// Every byte of an entry, and every length it may be cut to.
TEST(CompileCacheTest, ADamagedEntryIsAMissAndGoesAway) {
  TempDir dir;
  auto cache = CompileCache::Open(dir.path()).value();
  ASSERT_TRUE(cache->Put(Key(1), Variant("binary")).ok());
  const fs::path file = Files(dir).at(0);
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (bool cut : {false, true}) {
      std::string damaged = cut ? whole.substr(0, i) : whole;
      if (!cut) damaged[i] ^= 1;
      std::ofstream(file, std::ios::binary) << damaged;
      EXPECT_FALSE(cache->Get(Key(1)).has_value()) << i;
      EXPECT_FALSE(fs::exists(file)) << i;
    }
  }
  ASSERT_TRUE(cache->Put(Key(1), Variant("binary")).ok());
  EXPECT_TRUE(cache->Get(Key(1)).has_value());
}

TEST(CompileCacheTest, EvictsWhatWasUnusedForLongest) {
  TempDir dir;
  const int64_t bytes_each = 10'000;
  auto cache = CompileCache::Open(dir.path(), 10 * bytes_each).value();
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(cache->Put(Key(i), Variant(std::string(bytes_each, 'b'))).ok());
  }
  // All equally old, but for entry 3, which is used.
  for (const fs::path& file : Files(dir)) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  ASSERT_TRUE(cache->Get(Key(3)).has_value());
  for (int i = 100; i < 104; ++i) {
    ASSERT_TRUE(cache->Put(Key(i), Variant(std::string(bytes_each, 'b'))).ok());
  }
  EXPECT_LE(cache->bytes(), 10 * bytes_each);
  EXPECT_TRUE(cache->Get(Key(3)).has_value());
  EXPECT_TRUE(cache->Get(Key(103)).has_value());
  EXPECT_LT(Files(dir).size(), 11u);
}

TEST(CompileCacheTest, CountsWhatIsThereAlready) {
  TempDir dir;
  ASSERT_TRUE(CompileCache::Open(dir.path()).value()->Put(Key(1), Variant("b")).ok());
  auto cache = CompileCache::Open(dir.path()).value();
  EXPECT_EQ(cache->bytes(), static_cast<int64_t>(fs::file_size(Files(dir).at(0))));
}

TEST(CompileCacheTest, AFolderThatCannotBeIsASentence) {
  EXPECT_EQ(CompileCache::Open("/proc/none/cache").status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tune::server
