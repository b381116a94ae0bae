// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/launch_sizes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/wire/spec.h"
#include "tuner/kernel/launch_sizes_of.h"

namespace tune {
namespace {

using Json = nlohmann::ordered_json;

Value ValueOf(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  return json.get<std::string>();
}

Config ConfigOf(const Json& json) {
  Config config;
  for (const auto& [name, value] : json.items()) config.entries.emplace_back(name, ValueOf(value));
  return config;
}

LaunchSizes SizesOf(const Json& json) {
  std::vector<std::pair<std::string, std::string>> lets = json["lets"];
  std::vector<LaunchText> steps;
  for (const Json& step : json["steps"]) {
    steps.push_back({step["when"], step["grid"], step["block"], step["shared_bytes"]});
  }
  Scope scope;
  for (const auto& [name, value] : json["scope"].items()) scope.Set(name, ValueOf(value));
  return LaunchSizes(std::make_shared<LaunchForm>(lets, steps), std::move(scope));
}

TEST(LaunchSizesTest, AnswersTheCasesOfTheTable) {
  std::ifstream in(std::string(TUNE_PROJECT_DIR) + "/tests/data/launch_size_cases.json");
  const Json cases = Json::parse(in);
  ASSERT_GE(cases.size(), 5);
  for (const Json& one : cases) {
    LaunchSizes sizes = SizesOf(one);
    for (int time = 0; time < 2; ++time) {  // worked out, then known
      for (const Json& asked : one["configs"]) {
        const Config config = ConfigOf(asked["config"]);
        const LaunchSize size = sizes.Of(config);
        EXPECT_EQ(sizes.Blocks(config), asked["blocks"].get<int64_t>()) << one["what"] << asked;
        if (size.threads > 0) {
          EXPECT_EQ(size.blocks, sizes.Blocks(config)) << one["what"] << asked;
        }
        EXPECT_EQ(size.threads, asked["threads"].get<int64_t>()) << one["what"] << asked;
        EXPECT_EQ(size.shared_bytes, asked["shared_bytes"].get<int64_t>()) << one["what"] << asked;
      }
    }
  }
}

TEST(LaunchSizesTest, OfAKernelAreThoseOfItsSpec) {
  const std::string spec = R"pb(
    name: "scale"
    source: "scale.cu"
    entry: "scale"
    targets: [ "sm_*" ]
    dims { name: "n" default_value: 1024 min: 1 max: 65536 }
    dtypes: [ "f32", "bf16" ]
    params { name: "THREADS" values: "[64, 128]" default_value: "64" }
    lets { name: "items" value: "16 // dtype_bytes" }
    args {
      name: "x"
      buffer {
        dtype: "dtype"
        shape: [ "n" ]
        role: ROLE_INOUT
      }
    }
    launch { grid: "ceil_div(n, THREADS * items)" block: "THREADS" shared_bytes: "sm * 10" }
    reference {
      entry: "scale"
      launch { grid: "n" block: "1" }
    }
  )pb";
  const auto kernel = server::ReadKernel("scale.textproto", spec, {{"scale.cu", "// nothing"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const Problem problem{.dims = {{"n", 4096}}, .dtype = DType::kBF16};
  const Config config{.entries = {{"THREADS", int64_t{128}}}};
  const LaunchSize size = LaunchSizesOf(**kernel, problem, "sm_90a").Of(config);
  EXPECT_EQ(size.blocks, 4);
  EXPECT_EQ(size.threads, 128);
  EXPECT_EQ(size.shared_bytes, 900);
}

}  // namespace
}  // namespace tune
