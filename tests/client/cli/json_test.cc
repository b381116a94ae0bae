// SPDX-License-Identifier: Apache-2.0
#include "client/cli/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "client/cli/session.h"
#include "tune/v1/replay.pb.h"
#include "tune/v1/sweep.pb.h"

namespace tune::client {
namespace {

void AddParam(v1::Config& config, const std::string& name, const v1::Value& value) {
  v1::ConfigEntry* entry = config.add_entries();
  entry->set_param(name);
  *entry->mutable_value() = value;
}

v1::Sweep SweepOf(const std::string& message) {
  v1::Sweep sweep;
  sweep.set_id(9007199254740993);
  sweep.set_message(message);
  sweep.set_state(v1::JOB_STATE_DONE);
  v1::DimValue* dim = sweep.mutable_problem()->add_dims();
  dim->set_name("n");
  dim->set_value(4096);
  sweep.mutable_problem()->set_dtype("f32");
  (*sweep.mutable_progress()->mutable_outcomes())["wrong_result"] = 1;
  (*sweep.mutable_progress()->mutable_outcomes())["ok"] = 4;
  v1::Config& config = *sweep.mutable_progress()->mutable_best_config();
  v1::Value value;
  value.set_integer(64);
  AddParam(config, "BLOCK", value);
  value.set_text("wgmma");
  AddParam(config, "PATH", value);
  value.set_real(0.1);
  AddParam(config, "SHARE", value);
  value.set_boolean(true);
  AddParam(config, "FAST", value);
  value.set_integer(0);
  AddParam(config, "ZERO", value);
  return sweep;
}

TEST(JsonTest, NumbersAndConfigsArePlain) {
  EXPECT_EQ(JsonText(SweepOf(""), Layout::kOneLine),
            R"({"id":9007199254740993,"problem":{"dims":{"n":4096},"dtype":"f32"},)"
            R"("state":"JOB_STATE_DONE","progress":{"outcomes":{"ok":4,"wrong_result":1},)"
            R"("best_config":{"BLOCK":64,"PATH":"wgmma","SHARE":0.1,"FAST":true,"ZERO":0}}})");
  v1::RecordedParam param;
  param.set_name("A");
  param.add_values()->set_integer(1);
  param.add_values()->set_text("x");
  EXPECT_EQ(JsonText(param, Layout::kOneLine), R"({"name":"A","values":[1,"x"]})");
}

TEST(JsonTest, NothingSteersATerminal) {
  const std::string text =
      JsonText(SweepOf("\033[2J\x7f\xC2\x9B\xE2\x80\xAE\"\\\n\t\xC3\xBC"), Layout::kIndented);
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int(c);
  EXPECT_NE(text.find(R"("\u001b[2J\u007f\u009b\u202e\"\\\n\t\u00fc")"), std::string::npos) << text;
}

TEST(JsonTest, WhatIsNotFiniteIsNull) {
  v1::ReplayResponse replay;
  replay.add_best_latency_ns(std::numeric_limits<double>::infinity());
  replay.add_best_latency_ns(2.5);
  EXPECT_EQ(JsonText(replay, Layout::kOneLine), R"({"best_latency_ns":[null,2.5]})");
}

TEST(JsonTest, ListsHaveOneShape) {
  const auto printed = [](const std::vector<v1::DimValue>& dims) {
    testing::internal::CaptureStdout();
    PrintJsonList("dims", dims);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  v1::DimValue dim;
  dim.set_name("n");
  EXPECT_EQ(printed({}), "{\"dims\": []}\n");
  EXPECT_EQ(printed({dim, dim}), "{\"dims\": [\n{\"name\":\"n\"},\n{\"name\":\"n\"}]}\n");
}

}  // namespace
}  // namespace tune::client
