// SPDX-License-Identifier: Apache-2.0
// The look-up rule by a table of cases.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lookup/index.h"
#include "lookup/place.h"
#include "tuner/device_profile.h"

namespace tune::lookup {
namespace {

using Json = nlohmann::ordered_json;

Problem ProblemOf(const Json& json) {
  Problem problem{.dtype = ParseDType(json.at("dtype").get<std::string>()).value()};
  for (const auto& [name, value] : json.at("dims").items()) {
    problem.dims.emplace_back(name, value.get<int64_t>());
  }
  return problem;
}

KernelPolicy PolicyOf(const Json& table, const Json& one) {
  const std::map<std::string, DimMatch> rules = {{"nearest", DimMatch::kNearest},
                                                 {"exact", DimMatch::kExact},
                                                 {"bucketed", DimMatch::kBucketed},
                                                 {"ignored", DimMatch::kIgnored}};
  KernelPolicy policy{.kernel_name = table.at("kernel"),
                      .kernel_hash = table.at("kernel_hash"),
                      .include_digest = one.value("include_digest", "")};
  for (const auto& [name, rule] : table.at("rules").items()) {
    policy.dims[name] = rules.at(rule.get<std::string>());
  }
  return policy;
}

Record RecordOf(const Json& json, const std::string& kernel) {
  Record record{.id = json.at("id"), .kernel_name = kernel};
  record.key = {.kernel_hash = json.at("kernel_hash"),
                .problem = ProblemOf(json),
                .device_name = json.at("device"),
                .target = json.at("target"),
                .driver = json.value("driver", ""),
                .cache_mode = json.at("cache_mode") == "warm" ? CacheMode::kWarm : CacheMode::kCold,
                .include_digest = json.value("include_digest", "")};
  return record;
}

std::string ToText(Match match) {
  const std::vector<std::string> names = {"",        "exact",        "bucketed",
                                          "nearest", "other_device", "none"};
  return names.at(static_cast<size_t>(match));
}

TEST(LookupCasesTest, EveryCaseOfTheTable) {
  std::ifstream file(LOOKUP_CASES);
  const Json table = Json::parse(file);
  const std::string kernel = table.at("kernel");
  ASSERT_GT(table.at("cases").size(), 30u);
  for (const Json& one : table.at("cases")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    std::vector<Record> records;
    for (const Json& record : one.at("records")) records.push_back(RecordOf(record, kernel));
    const auto index = Index::Build(records, {PolicyOf(table, one)});
    const Json& asked = one.at("query");
    const std::set<int64_t> refused = one.at("refuse");
    const Answer answer =
        index->Lookup({.kernel_name = kernel,
                       .kernel_hash = asked.at("kernel_hash"),
                       .problem = ProblemOf(asked),
                       .device_name = asked.at("device"),
                       .target = asked.at("target"),
                       .driver = asked.value("driver", "")},
                      [&](const Record& record) { return !refused.contains(record.id); });
    EXPECT_EQ(ToText(answer.match), one.at("match").get<std::string>());
    EXPECT_EQ(answer.record == nullptr ? 0 : answer.record->id, one.at("record").get<int64_t>());
    EXPECT_EQ(answer.reason, one.at("reason").get<std::string>());
  }
}

TEST(LookupCasesTest, EveryPlaceOfTheTable) {
  std::ifstream file(LOOKUP_CASES);
  const Json table = Json::parse(file);
  ASSERT_GT(table.at("places").size(), 10u);
  for (const Json& one : table.at("places")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    SeenDevices seen;
    for (const auto& [name, device] : one.at("seen").items()) {
      seen[name] = {device.at(0).get<std::string>(), device.at(1).get<int64_t>()};
    }
    const RecordedPlace place = PlaceByRecords(one.at("asked").get<std::string>(), seen);
    EXPECT_EQ(place.device, one.at("device").get<std::string>());
    EXPECT_EQ(place.target, one.at("target").get<std::string>());
    EXPECT_EQ(place.note, one.at("note").get<std::string>());
  }
}

TEST(LookupCasesTest, GpusByTheirNames) {
  std::ifstream file(LOOKUP_CASES);
  const Json table = Json::parse(file);
  std::set<std::string> targets;
  for (const auto& [name, target] : table.at("gpus").items()) {
    EXPECT_EQ(TargetOfGpu(name), target.get<std::string>()) << name;
    if (!TargetOfGpu(name).empty()) targets.insert(TargetOfGpu(name));
  }
  const std::vector<std::string> named = NamedGpuTargets();
  EXPECT_EQ(targets, std::set<std::string>(named.begin(), named.end()));
}

}  // namespace
}  // namespace tune::lookup
