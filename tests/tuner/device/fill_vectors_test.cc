// SPDX-License-Identifier: Apache-2.0
// Elements that buffers are filled with, as tests/data/fill_vectors.json has them: what the port of
// the Python package is held to as well.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"
#include "tuner/device/host_call.h"

namespace tune {
namespace {

TEST(FillVectorsTest, BuffersAreFilledAsTheVectorsSay) {
  std::ifstream file(TUNE_PROJECT_DIR "/tests/data/fill_vectors.json");
  const nlohmann::json vectors = nlohmann::json::parse(file);
  ASSERT_GT(vectors.size(), 10u);
  for (const nlohmann::json& vector : vectors) {
    BufferPlan buffer;
    buffer.name = vector["name"].get<std::string>();
    buffer.dtype = ParseDType(vector["dtype"].get<std::string>()).value();
    buffer.count = vector["count"].get<int64_t>();
    buffer.fill.kind = static_cast<Fill::Kind>(vector["kind"].get<int>());
    buffer.fill.low = vector["low"].get<double>();
    buffer.fill.high = vector["high"].get<double>();
    HostCall call;
    call.seed = vector["seed"].get<uint64_t>();
    EXPECT_EQ(absl::BytesToHexString(ElementsOf(buffer, call)),
              vector["elements"].get<std::string>())
        << buffer.name << " " << ToText(buffer.dtype);
  }
}

}  // namespace
}  // namespace tune
