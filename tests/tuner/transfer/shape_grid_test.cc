// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/shape_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tuner/transfer/recorded_grids.h"

namespace tune {
namespace {

using Json = nlohmann::ordered_json;

Config ConfigNamed(const std::string& name) { return {.entries = {{"NAME", name}}}; }

// "a" 100 ns, "b" 110 ns, ...
SweptShape Swept(std::vector<int64_t> dims,
                 std::vector<std::pair<std::string, double>> latencies_ns) {
  SweptShape swept{.dims = std::move(dims)};
  for (const auto& [name, latency_ns] : latencies_ns) {
    swept.configs.push_back({ConfigNamed(name), latency_ns});
  }
  return swept;
}

std::string NameOf(const Config& config) { return std::get<std::string>(config.entries[0].second); }

// By a config's name; 0 of others.
CountBlocks Blocks(std::map<std::string, int64_t> of_name) {
  return [of_name = std::move(of_name)](const Config& config) {
    const auto found = of_name.find(NameOf(config));
    return found == of_name.end() ? 0 : found->second;
  };
}

// Adds block counts, with room for one block on a multiprocessor.
SweptShape WithBlocks(SweptShape swept, std::map<std::string, int64_t> of_name) {
  swept.blocks_of = Blocks(std::move(of_name));
  for (SweptConfig& one : swept.configs) one.residents = 1;
  return swept;
}

std::string Chosen(const ShapeGrid& grid, std::vector<int64_t> dims,
                   const CountBlocks& blocks_of = nullptr) {
  const auto choice = ChooseConfig(grid, {dims, blocks_of}, [](const Config&) { return true; });
  return choice ? NameOf(grid.configs[choice->config]) : "";
}

TEST(ShapeGridTest, TakesTheWinnerOfTheOnlyShape) {
  const ShapeGrid grid = MakeShapeGrid({"n"}, {Swept({1024}, {{"a", 100}, {"b", 110}})});
  const auto choice = ChooseConfig(grid, {{4096}}, [](const Config&) { return true; });
  ASSERT_TRUE(choice);
  EXPECT_EQ(Chosen(grid, {4096}), "a");
  EXPECT_EQ(grid.residuals.count, 0);
  // Its errors are not known yet: made-up residuals, wider the farther away.
  EXPECT_GT(choice->loss, 0);
  EXPECT_GT(choice->loss_high, choice->loss);
  const auto near = ChooseConfig(grid, {{2048}}, [](const Config&) { return true; });
  EXPECT_LT(near->loss_high, choice->loss_high);
}

TEST(ShapeGridTest, PrefersWhatIsGoodAtSeveralNeighboursToOneNeighboursWinner) {
  const ShapeGrid grid =
      MakeShapeGrid({"n"}, {Swept({1024}, {{"a", 100}, {"steady", 101}}),
                            Swept({4096}, {{"b", 100}, {"steady", 101}, {"a", 150}})});
  EXPECT_EQ(Chosen(grid, {2048}), "steady");
  EXPECT_EQ(Chosen(grid, {4095}), "b") << "next to a shape its winner is the answer";
}

TEST(ShapeGridTest, AConfigThatIsNotAcceptedDoesNotAnswer) {
  const ShapeGrid grid = MakeShapeGrid({"n"}, {Swept({1024}, {{"a", 100}, {"b", 110}})});
  const auto choice =
      ChooseConfig(grid, {{1024}}, [](const Config& config) { return config == ConfigNamed("b"); });
  ASSERT_TRUE(choice);
  EXPECT_EQ(grid.configs[choice->config], ConfigNamed("b"));
  EXPECT_FALSE(ChooseConfig(grid, {{1024}}, [](const Config&) { return false; }));
}

TEST(ShapeGridTest, WeightsFallWithTheDistanceAndAreOneTogether) {
  const ShapeGrid grid = MakeShapeGrid(
      {"m", "n"},
      {Swept({64, 64}, {{"a", 1}}), Swept({64, 128}, {{"a", 1}}), Swept({1024, 1024}, {{"a", 1}})});
  const auto choice = ExpectLoss(grid, {{64, 64}}, ConfigNamed("a"));
  ASSERT_TRUE(choice);
  ASSERT_EQ(choice->neighbours.size(), 3);
  double sum = 0;
  double last = 2;
  for (const NeighbourWeight& one : choice->neighbours) {
    EXPECT_LE(one.weight, last);
    last = one.weight;
    sum += one.weight;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_EQ(choice->neighbours.front().octaves, 0);
}

TEST(ShapeGridTest, TheFirstOfSweepsWithEqualDimsCounts) {
  const ShapeGrid grid =
      MakeShapeGrid({"n"}, {Swept({64}, {{"new", 1}}), Swept({64}, {{"old", 1}})});
  ASSERT_EQ(grid.shapes.size(), 1);
  EXPECT_EQ(Chosen(grid, {64}), "new");
}

TEST(ShapeGridTest, AnAnswerDoesNotDependOnTheOrderOfTheSweeps) {
  std::vector<SweptShape> sweeps = {Swept({64}, {{"a", 100}, {"b", 103}, {"c", 104}}),
                                    Swept({256}, {{"c", 100}, {"b", 102}, {"a", 109}}),
                                    Swept({1024}, {{"b", 100}, {"a", 104}})};
  const ShapeGrid grid = MakeShapeGrid({"n"}, sweeps);
  std::swap(sweeps[0], sweeps[2]);
  const ShapeGrid other = MakeShapeGrid({"n"}, sweeps);
  for (const int64_t n : {1, 32, 128, 200, 512, 700, 5000}) {
    EXPECT_EQ(Chosen(grid, {n}), Chosen(other, {n})) << n;
  }
}

TEST(ShapeGridTest, ExpectsMoreOfAGridThatErred) {
  // The winner of a shape says nothing about the next.
  std::vector<SweptShape> erratic;
  std::vector<SweptShape> steady;
  for (int i = 0; i < 12; ++i) {
    const int64_t n = int64_t{64} << i;
    const std::string mine = i % 2 == 0 ? "a" : "b";
    const std::string other = i % 2 == 0 ? "b" : "a";
    erratic.push_back(Swept({n}, {{mine, 100}, {other, 130}}));
    steady.push_back(Swept({n}, {{"a", 100}, {"b", 130}}));
  }
  const auto accept = [](const Config&) { return true; };
  const auto bad = ChooseConfig(MakeShapeGrid({"n"}, erratic), {{3000}}, accept);
  const auto good = ChooseConfig(MakeShapeGrid({"n"}, steady), {{3000}}, accept);
  EXPECT_GT(bad->loss_high, good->loss_high);
  EXPECT_GT(bad->loss, 0.1);
  EXPECT_LT(good->loss, 0.02);
}

TEST(ShapeGridTest, AConfigWhoseLastWaveIsFullElsewhereIsNotTakenWhereItIsNot) {
  // 132 multiprocessors: "big" fills them at 1024 and 4096, and half of them at 2048.
  const std::vector<SweptShape> sweeps = {
      WithBlocks(Swept({1024}, {{"big", 100}, {"small", 110}}), {{"big", 132}, {"small", 264}}),
      WithBlocks(Swept({4096}, {{"big", 400}, {"small", 440}}), {{"big", 528}, {"small", 1056}})};
  const CountBlocks here = Blocks({{"big", 198}, {"small", 396}});
  EXPECT_EQ(Chosen(MakeShapeGrid({"n"}, sweeps), {2048}, here), "big") << "no waves are known";
  const ShapeGrid grid = MakeShapeGrid({"n"}, sweeps, 132);
  EXPECT_EQ(Chosen(grid, {2048}, here), "small");
  EXPECT_EQ(Chosen(grid, {2048}, Blocks({{"big", 264}, {"small", 528}})), "big");
  EXPECT_EQ(Chosen(grid, {2048}), "big") << "the blocks here are not known";
  // 1.5 times the work in two waves instead of one.
  const auto big = ExpectLoss(grid, {{2048}, here}, ConfigNamed("big"));
  const auto small = ExpectLoss(grid, {{2048}, here}, ConfigNamed("small"));
  EXPECT_NEAR(big->loss - small->loss, (4.0 / 3) / 1.1 - 1, 1e-4);
}

TEST(ShapeGridTest, SomeOfEachNumberOfBlocksAreKept) {
  SweptShape swept{.dims = {1024}};
  for (int i = 0; i < 200; ++i) {
    swept.configs.push_back({ConfigNamed(std::to_string(i)), 1000.0 + i, 1});
  }
  // The 20 slowest have twice the blocks.
  swept.blocks_of = [](const Config& config) { return std::stoi(NameOf(config)) < 180 ? 64 : 128; };
  const ShapeGrid grid = MakeShapeGrid({"n"}, {swept}, 132);
  EXPECT_EQ(grid.configs.size(), kGridConfigsMax);
  const auto has = [&](int i) {
    return std::find(grid.configs.begin(), grid.configs.end(), ConfigNamed(std::to_string(i))) !=
           grid.configs.end();
  };
  EXPECT_TRUE(has(0) && has(55) && has(180) && has(187));
  EXPECT_FALSE(has(56) || has(188));
  EXPECT_TRUE(grid.shapes[0].has_more);
  EXPECT_EQ(grid.shapes[0].loss_of_unknown, 560) << "the fastest that is not kept";
  EXPECT_EQ(grid.shapes[0].blocks.size(), kGridConfigsMax);
}

TEST(ShapeGridTest, AConfigHasTheFewestResidentsOfItsSweeps) {
  SweptShape first = Swept({64}, {{"a", 100}});
  SweptShape second = Swept({128}, {{"a", 100}});
  SweptShape third = Swept({256}, {{"a", 100}});
  first.configs[0].residents = 4;
  second.configs[0].residents = 2;
  EXPECT_EQ(MakeShapeGrid({"n"}, {first, second, third}, 132).residents, std::vector<int64_t>{2});
  EXPECT_EQ(MakeShapeGrid({"n"}, {first, second, third}).residents, std::vector<int64_t>{});
}

// The figures of docs/lookup.md hold, with slack for later recordings.
TEST(ShapeGridTest, HoldsItsFiguresOnTheRecordings) {
  std::vector<LeftOut> all;
  for (const char* folder : {"/bench/data/shapes", "/docs/results/recordings"}) {
    const auto grids = GridsOf(std::string(TUNE_PROJECT_DIR) + folder);
    ASSERT_TRUE(grids.ok()) << grids.status();
    EXPECT_GE(grids->size(), 2) << folder;
    for (const RecordedGrid& recorded : *grids) {
      const std::vector<LeftOut> left = recorded.LeaveOneOut();
      EXPECT_EQ(left.size(), recorded.grid.shapes.size()) << recorded.name;
      all.insert(all.end(), left.begin(), left.end());
    }
  }
  const LeftOutFigures figures = FiguresOf(all);
  EXPECT_GE(figures.count, 100);
  EXPECT_LE(figures.loss_median, 0.005);
  EXPECT_LE(figures.loss_95, 0.09);
  EXPECT_LE(figures.loss_mean, 0.4 * figures.nearest_mean);
  EXPECT_NEAR(figures.bias, 0, 0.0125);
  EXPECT_GE(figures.covered, 0.9);
}

std::map<std::string, int64_t> SizesOf(const Json& json, const char* name) {
  return json.value(name, std::map<std::string, int64_t>());
}

ShapeGrid GridOf(const Json& json) {
  std::vector<SweptShape> sweeps;
  for (const Json& shape : json["sweeps"]) {
    SweptShape& swept = sweeps.emplace_back();
    swept.dims = shape["dims"].get<std::vector<int64_t>>();
    swept.has_more = shape["has_more"];
    swept.blocks_of = Blocks(SizesOf(shape, "blocks"));
    std::map<std::string, int64_t> residents = SizesOf(shape, "residents");
    for (const auto& [name, latency_ns] : shape["latencies_ns"].items()) {
      swept.configs.push_back({ConfigNamed(name), latency_ns.get<double>(), residents[name]});
    }
  }
  return MakeShapeGrid(json["axes"].get<std::vector<std::string>>(), sweeps,
                       json.value("multiprocessors", int64_t{0}));
}

TEST(ShapeGridTest, AnswersTheCasesOfTheTable) {
  std::ifstream in(std::string(TUNE_PROJECT_DIR) + "/tests/data/grid_cases.json");
  const Json cases = Json::parse(in);
  ASSERT_GE(cases.size(), 3);
  const auto has_waves = [](const Json& one) { return one.contains("multiprocessors"); };
  EXPECT_GE(std::count_if(cases.begin(), cases.end(), has_waves), 3);
  for (const Json& grid_case : cases) {
    const ShapeGrid grid = GridOf(grid_case);
    const Json& residuals = grid_case["residuals"];
    EXPECT_EQ(grid.residuals.count, residuals["count"].get<uint32_t>());
    EXPECT_NEAR(grid.residuals.mean, residuals["mean"].get<double>(), 1e-12);
    EXPECT_NEAR(grid.residuals.low, residuals["low"].get<double>(), 1e-12);
    EXPECT_NEAR(grid.residuals.high, residuals["high"].get<double>(), 1e-12);
    for (const Json& question : grid_case["questions"]) {
      const std::vector<std::string> refused = question["refuse"];
      const std::vector<int64_t> dims = question["dims"];
      const auto choice = ChooseConfig(
          grid, {dims, Blocks(SizesOf(question, "blocks"))}, [&](const Config& config) {
            return std::find(refused.begin(), refused.end(), NameOf(config)) == refused.end();
          });
      ASSERT_TRUE(choice) << question;
      EXPECT_EQ(grid.configs[choice->config], ConfigNamed(question["config"])) << question;
      EXPECT_NEAR(choice->loss, question["loss"].get<double>(), 1e-9) << question;
      EXPECT_NEAR(choice->loss_low, question["loss_low"].get<double>(), 1e-9) << question;
      EXPECT_NEAR(choice->loss_high, question["loss_high"].get<double>(), 1e-9) << question;
    }
  }
}

}  // namespace
}  // namespace tune
