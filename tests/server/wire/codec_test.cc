// SPDX-License-Identifier: Apache-2.0
#include "server/wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "tests/distinct.h"
#include "tune/v1/measured.pb.h"
#include "tune/v1/trial.pb.h"
#include "tune/worker/v1/worker.pb.h"
#include "tuner/artifact.h"
#include "tuner/ceiling.h"
#include "tuner/counters/counting.h"
#include "tuner/device/runner.h"
#include "tuner/plan.h"
#include "tuner/sample_policy.h"
#include "tuner/trial.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

template <typename NounType, typename ProtoType>
struct Mapping {
  using Noun = NounType;
  using Proto = ProtoType;
};

template <typename M>
class WholeNounTest : public testing::Test {};
using Mappings = testing::Types<
    Mapping<Resources, v1::Resources>, Mapping<Telemetry, v1::Telemetry>,
    Mapping<ResultError, v1::ResultError>, Mapping<Measurement, v1::Measurement>,
    Mapping<Trial, v1::Trial>, Mapping<Config, v1::Config>, Mapping<Problem, v1::Problem>,
    Mapping<Ceiling, v1::Ceiling>, Mapping<CounterReading, v1::Counter>,
    Mapping<CalibrationEntry, v1::CalibrationEntry>, Mapping<DeviceInfo, worker::v1::DeviceInfo>,
    Mapping<RunReport, worker::v1::RunReport>, Mapping<CountReport, worker::v1::CountReport>,
    Mapping<CalibrationReport, worker::v1::CalibrationReport>,
    Mapping<SamplePolicy, worker::v1::SamplePolicy>, Mapping<CompilePlan, worker::v1::Compile>,
    Mapping<Artifact, worker::v1::Artifact>, Mapping<BufferPlan, worker::v1::Buffer>,
    Mapping<ScalarPlan, worker::v1::Scalar>, Mapping<TensorMapPlan, worker::v1::TensorMap>,
    Mapping<LaunchPlan, worker::v1::Launch>, Mapping<Program, worker::v1::Program>>;
TYPED_TEST_SUITE(WholeNounTest, Mappings);

TYPED_TEST(WholeNounTest, EveryFieldSurvivesTheWire) {
  using Noun = typename TypeParam::Noun;
  const Noun noun = Distinct<Noun>();
  typename TypeParam::Proto sent;
  ASSERT_TRUE(sent.ParseFromString(Encoded<typename TypeParam::Proto>(noun).SerializeAsString()));
  const absl::StatusOr<Noun> received = Decoded<Noun>(sent);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_THAT(Differences(noun, *received), IsEmpty());
}

TEST(CodecTest, ADroppedFieldIsSeen) {
  Trial trial = Distinct<Trial>();
  trial.telemetry.power_mw = 0;
  trial.measurement.samples_ns.pop_back();
  EXPECT_THAT(Differences(Distinct<Trial>(), trial),
              testing::ElementsAre("measurement.samples_ns", "telemetry.power_mw"));
}

TEST(CodecTest, ValuesOfEveryKindComeBack) {
  const Config config{{{"BLOCK", int64_t{64}},
                       {"SCALE", 0.5},
                       {"WHERE", std::string("smem")},
                       {"UNROLL", true},
                       {"ZERO", int64_t{0}},
                       {"LOW", std::numeric_limits<int64_t>::min()}}};
  EXPECT_EQ(Decoded<Config>(Encoded<v1::Config>(config)).value(), config);
  v1::Config without;
  without.add_entries()->set_param("BLOCK");
  EXPECT_TRUE(absl::IsInvalidArgument(Decoded<Config>(without).status()));
}

TEST(CodecTest, AnEnumThatDoesNotExistIsRefused) {
  auto trial = Encoded<v1::Trial>(Trial());
  for (const int outcome : {0, 10, -1, std::numeric_limits<int>::max()}) {
    trial.set_outcome(static_cast<v1::Outcome>(outcome));
    const absl::Status status = Decoded<Trial>(trial).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << outcome;
    EXPECT_THAT(status.message(), HasSubstr("outcome"));
  }
  auto measurement = Encoded<v1::Measurement>(Measurement());
  EXPECT_EQ(measurement.clock(), v1::CLOCK_UNSPECIFIED);
  EXPECT_TRUE(Decoded<Measurement>(measurement).ok()) << "an unknown clock is a clock";
  v1::Problem problem;
  problem.set_dtype("f77");
  EXPECT_TRUE(absl::IsInvalidArgument(Decoded<Problem>(problem).status()));
}

TEST(CodecTest, NumbersAreClampedOnTheWayOutAndCheckedOnTheWayIn) {
  const Resources huge{.registers = std::numeric_limits<int64_t>::max(), .spill_bytes = -5};
  const auto proto = Encoded<v1::Resources>(huge);
  EXPECT_EQ(proto.registers(), std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(proto.spill_bytes(), 0u);
  auto ceiling = Encoded<v1::Ceiling>(Ceiling{.source = CeilingSource::kMeasured});
  ceiling.set_process_count(std::numeric_limits<uint32_t>::max());
  EXPECT_TRUE(absl::IsInvalidArgument(Decoded<Ceiling>(ceiling).status())) << "no int holds it";
}

TEST(CodecTest, RealsTravelAsTheyAre) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ResultError error{.max_abs = std::nan(""), .max_rel = infinity, .relative_l2 = -0.0};
  const ResultError copy = Decoded<ResultError>(Encoded<v1::ResultError>(error)).value();
  EXPECT_TRUE(std::isnan(copy.max_abs));
  EXPECT_EQ(copy.max_rel, infinity);
  EXPECT_TRUE(std::signbit(copy.relative_l2));
}

TEST(CodecTest, TextIsMadeUtf8AndBytesAreNot) {
  const auto error = Encoded<v1::ResultError>(ResultError{.worst = "y[\xff]"});
  EXPECT_EQ(error.worst(), "y[?]");
}

TEST(CodecTest, AMessageThatIsNotSetLeavesTheNounAsItStarts) {
  v1::Trial proto;
  proto.set_outcome(v1::OUTCOME_OK);
  proto.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
  EXPECT_EQ(Decoded<Trial>(proto).value().measurement.cache_mode, CacheMode::kCold);
}

struct MaybeTimed {
  std::optional<Clock> clock;
};
TUNE_FIELDS(MaybeTimed, clock);

TEST(CodecTest, AnElementIsNeverUnspecified) {
  const absl::Status status = Decoded<MaybeTimed>(v1::Measurement()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << "an optional starts with no clock";
  EXPECT_THAT(status.message(), HasSubstr("clock"));
}

TEST(CodecDeathTest, OtherFieldsLeftOutThanBeforeAreNamed) {
  const auto twice = [] {
    Encoded<v1::Telemetry>(Telemetry(), {"power_mw"});
    Encoded<v1::Telemetry>(Telemetry());
  };
  EXPECT_DEATH(twice(), "of tune.v1.Telemetry other fields are left out than before");
}

TEST(CodecDeathTest, AFieldThatTheMessageLacksIsNamed) {
  EXPECT_DEATH(Encoded<v1::Telemetry>(Resources()), "tune.v1.Telemetry lacks a field registers");
}

}  // namespace
}  // namespace tune::server
