// SPDX-License-Identifier: Apache-2.0
// Each parser on its seeds, whole, cut and changed at random: what every check can afford of
// tools/fuzz.sh. A parser that fails ends the process; the bytes are in fuzz-input then.
#include "tests/fuzz/parsers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune {

void PrintTo(const Parser& parser, std::ostream* out) { *out << parser.name; }

namespace {

constexpr int kChanged = 300;  // inputs of each seed
constexpr size_t kBytesMax = 20'000;

std::vector<std::string> SeedsOf(const std::string& parser) {
  std::vector<std::string> seeds;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(SEED_DIR, "/", parser))) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    seeds.push_back(text.str().substr(0, kBytesMax));
  }
  return seeds;
}

void Try(const Parser& parser, const std::string& bytes) {
  std::ofstream(testing::TempDir() + "fuzz-input", std::ios::binary) << bytes;
  parser.parse(bytes);
}

// Some bytes replaced, taken away or repeated.
std::string Changed(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t end) {
    return std::uniform_int_distribution<size_t>(0, end - 1)(random);
  };
  for (size_t left = 1 + below(4); left > 0 && !bytes.empty(); --left) {
    const size_t at = below(bytes.size());
    const size_t count = std::min(bytes.size() - at, 1 + below(16));
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(below(bytes.size()), bytes.substr(at, count));
        break;
      default:
        bytes[at] = bytes[below(bytes.size())];
    }
  }
  return bytes;
}

class ParsersTest : public testing::TestWithParam<Parser> {};

TEST_P(ParsersTest, TakeAnyBytes) {
  const std::vector<std::string> seeds = SeedsOf(GetParam().name);
  ASSERT_FALSE(seeds.empty());
  std::mt19937 random(1);
  Try(GetParam(), "");
  for (const std::string& seed : seeds) {
    Try(GetParam(), seed);
    Try(GetParam(), seed.substr(0, seed.size() / 2));
    for (int i = 0; i < kChanged; ++i) Try(GetParam(), Changed(seed, random));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ParsersTest, testing::ValuesIn(Parsers().begin(), Parsers().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tune
