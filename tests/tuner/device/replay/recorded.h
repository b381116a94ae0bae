// SPDX-License-Identifier: Apache-2.0
// Recordings for tests: those of tests/data, and small ones made up.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tuner/device/replay/formats.h"
#include "tuner/device/replay/recording.h"

namespace tune::replay {

inline std::string DataFile(const std::string& name) {
  std::ifstream in(std::string(TUNE_TEST_DATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline Recording Load(const std::string& name) {
  auto recording = ReadRecording(
      {{name + ".json", DataFile(name + ".json")}, {name + ".csv.gz", DataFile(name + ".csv.gz")}});
  EXPECT_TRUE(recording.ok()) << recording.status();
  return *std::move(recording);
}

// Configs N=0, 1, ...; a latency of 0 is a failure. Each cost `evaluate_seconds`.
inline RecordedSpace MakeRecordedSpace(const std::vector<double>& latencies_ns,
                                       double evaluate_seconds = 1) {
  RecordingBuilder builder({.name = "made up", .device = "GPU", .params = {{"N", {}}}});
  for (size_t i = 0; i < latencies_ns.size(); ++i) {
    RecordedTrial trial{.latency_ns = latencies_ns[i], .evaluate_seconds = evaluate_seconds};
    if (latencies_ns[i] == 0) trial.outcome = Outcome::kCompileFailed;
    EXPECT_TRUE(builder.Add({static_cast<int64_t>(i)}, trial).ok());
  }
  auto recording = std::move(builder).Build();
  EXPECT_TRUE(recording.ok()) << recording.status();
  auto space = RecordedSpace::Create(*std::move(recording));
  EXPECT_TRUE(space.ok()) << space.status();
  return *std::move(space);
}

}  // namespace tune::replay
