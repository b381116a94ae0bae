// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/store.h"
#include "server/wire/spec.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

constexpr char kSpec[] = R"spec(
  name: "copy" source: "copy.cu" entry: "copy" dtypes: "f32" dtypes: "f16"
  dims { name: "n" default_value: 1024 }
  dims { name: "mode" default_value: 0 values: 0 values: 1 match: DIM_MATCH_EXACT }
  params { name: "THREADS" values: "[64, 128, 256]" default_value: "64" }
  args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
  args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
  launch { grid: "ceil_div(n, THREADS)" block: "THREADS" }
  work { bytes: "2 * n * dtype_bytes" flops: "0" peak: "f32" }
  reference { entry: "copy_reference" launch { grid: "1" block: "1" } }
)spec";

TrialKey Key(int64_t n, const std::string& device = "NVIDIA H200") {
  return {.kernel_hash = "hash",
          .problem = {.dims = {{"n", n}, {"mode", 0}}},
          .device_name = device,
          .target = "sm_90a",
          .driver = "575",
          .compiler = "NVRTC 13.0"};
}

Trial MakeTrial(int64_t sweep_id, int64_t threads, double latency_ns) {
  Trial trial{.sweep_id = sweep_id, .config = {{{"THREADS", threads}}}};
  if (latency_ns == 0) trial.outcome = Outcome::kInvalidConfig;
  trial.measurement.latency_ns_median = latency_ns;
  return trial;
}

class WarmStartTest : public testing::Test {
 protected:
  void SetUp() override {
    auto kernel = ReadKernel("copy.textproto", kSpec,
                             {{"copy.cu", "extern \"C\" __global__ void copy() {}"}});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    kernel_ = *std::move(kernel);
    auto store = db::Store::Open(dir_.path() + "/tune.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(
        store_
            ->PutKernel(
                {.hash = "hash", .name = "copy", .spec_name = "copy.textproto", .spec_text = kSpec})
            .ok());
    auto sweep =
        store_->AddSweep({.kernel_hash = "hash", .kernel_name = "copy", .target = "sm_90a"});
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    sweep_id_ = sweep->id;
  }

  void Add(const TrialKey& key, int64_t threads, double latency_ns) {
    ASSERT_TRUE(store_->AppendTrial(MakeTrial(sweep_id_, threads, latency_ns), key).ok());
  }

  TempDir dir_;
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<db::Store> store_;
  int64_t sweep_id_ = 0;
};

TEST_F(WarmStartTest, TheNearestShapeComesFirstAndTheSameKeyNever) {
  Add(Key(1024), 64, 10);
  Add(Key(1 << 20), 64, 3000);
  Add(Key(1 << 20), 128, 1500);
  Add(Key(2048), 64, 30);
  Add(Key(2048), 128, 20);
  Add(Key(2048), 256, 0);
  auto warm_start = GatherWarmStart(*store_, {}, "copy", *kernel_, Key(1024), 100);
  ASSERT_TRUE(warm_start.ok()) << warm_start.status();
  ASSERT_EQ(warm_start->sources.size(), 2u);
  EXPECT_THAT(warm_start->sources[0], HasSubstr("n=2048"));
  EXPECT_THAT(warm_start->sources[0], HasSubstr("NVIDIA H200 (3 configs)"));
  EXPECT_THAT(warm_start->sources[1], HasSubstr("n=1048576"));
  ASSERT_EQ(warm_start->prior.size(), 5u);
  EXPECT_EQ(ToText(warm_start->prior[0].config), "THREADS=128");
  EXPECT_EQ(warm_start->prior[0].relative_latency, 1);
  EXPECT_EQ(warm_start->prior[1].relative_latency, 1.5);
  EXPECT_EQ(warm_start->prior[2].outcome, Outcome::kInvalidConfig);
  EXPECT_EQ(warm_start->prior[3].source, 1u);
  EXPECT_GT(warm_start->prior[0].weight, warm_start->prior[3].weight);
  auto little = GatherWarmStart(*store_, {}, "copy", *kernel_, Key(1024), 2);
  ASSERT_TRUE(little.ok());
  EXPECT_EQ(little->prior.size(), 2u);
}

TEST_F(WarmStartTest, NothingIsNothing) {
  auto warm_start = GatherWarmStart(*store_, {}, "copy", *kernel_, Key(1024), 100);
  ASSERT_TRUE(warm_start.ok());
  EXPECT_TRUE(warm_start->prior.empty());
  Add(Key(2048), 64, 0);  // failures alone teach nothing that could be relative to a best
  EXPECT_TRUE(GatherWarmStart(*store_, {}, "copy", *kernel_, Key(1024), 100)->sources.empty());
}

lookup::Record Winner(int64_t id, const TrialKey& key, int64_t threads) {
  lookup::Record record{.id = id, .kernel_name = "copy"};
  record.key = key;
  record.trial.config.entries = {{"THREADS", threads}};
  return record;
}

TEST_F(WarmStartTest, SweepsThatCameWithTheProgramTeachToo) {
  const std::string sweep_of =
      R"({"kernel":"%s","kernel_hash":"hash","device":"NVIDIA H200","target":"sm_90a",)"
      R"("dims":{"n":2048,"mode":0},"dtype":"f32","params":[["THREADS",[64,128]]],)"
      R"("configs":["BA"],"latency_tenths":[205,205],"registers":[32,16],)"
      R"("static_shared_bytes":[],"dynamic_shared_bytes":[]})";
  const auto shipped = ShippedSweeps::Parse({absl::StrCat(
      R"({"format":"tunectl snapshot","version":1,"number":0,)",
      R"("published_unix_ms":0,"record_count":0,)",
      "\n\"targets\":{},\n\"kernels\":[],\n\"records\":[],\n\"grids\":[],\n\"sweeps\":[\n",
      absl::StrReplaceAll(sweep_of, {{"%s", "copy"}}), ",\n",
      absl::StrReplaceAll(sweep_of, {{"%s", "other"}}), "\n]}\n")});
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  Add(Key(1 << 20), 64, 3000);
  const auto warm_start = GatherWarmStart(*store_, **shipped, "copy", *kernel_, Key(1024), 100);
  ASSERT_TRUE(warm_start.ok()) << warm_start.status();
  ASSERT_EQ(warm_start->sources.size(), 2u);
  EXPECT_THAT(warm_start->sources[0], HasSubstr("n=2048"));
  EXPECT_THAT(warm_start->sources[0], HasSubstr("(2 configs, shipped)"));
  EXPECT_EQ(ToText(warm_start->prior[0].config), "THREADS=128");
  EXPECT_EQ(warm_start->prior[1].relative_latency, 2);
}

// Records that nobody here measured, such as shipped ones, teach by what won.
TEST(NearestWinnersTest, TakesEachConfigOnceTheNearestFirst) {
  const SpaceParam threads = {"THREADS", {int64_t{64}, int64_t{128}, int64_t{256}}};
  const Space space = Space::Build({.params = {threads}}).value();
  const auto index = lookup::Index::Build({Winner(1, Key(1 << 20), 256), Winner(0, Key(2048), 128),
                                           Winner(2, Key(4096), 128), Winner(3, Key(1500), 512)},
                                          {});
  const TrialKey key = Key(1024);
  const lookup::Query query = {.kernel_name = "copy",
                               .kernel_hash = "hash",
                               .problem = key.problem,
                               .device_name = key.device_name,
                               .target = key.target};
  const std::vector<NearWinner> winners = NearestWinners(*index, query, space, 4);
  ASSERT_EQ(winners.size(), 2u);  // the space has no 512
  EXPECT_EQ(ToText(space.At(winners[0].index)), "THREADS=128");
  EXPECT_THAT(winners[0].source, HasSubstr("n=2048"));
  EXPECT_THAT(winners[0].source, testing::EndsWith("on NVIDIA H200 (its winner, shipped)"));
  EXPECT_EQ(ToText(space.At(winners[1].index)), "THREADS=256");
  EXPECT_THAT(winners[1].source, testing::EndsWith("on NVIDIA H200 (its winner)"));
  EXPECT_EQ(NearestWinners(*index, query, space, 1).size(), 1u);
}

TEST_F(WarmStartTest, TrustFallsWithEveryDifference) {
  const KernelSpec& spec = kernel_->spec();
  const TrialKey key = Key(1024);
  EXPECT_EQ(TrustIn(key, key, spec), 1);
  EXPECT_LT(TrustIn(Key(4096), key, spec), TrustIn(Key(2048), key, spec));
  EXPECT_LT(TrustIn(Key(1024, "NVIDIA H100"), key, spec), 1);
  TrialKey other_arch = Key(1024, "NVIDIA A100");
  other_arch.target = "sm_80";
  EXPECT_LT(TrustIn(other_arch, key, spec), TrustIn(Key(1024, "NVIDIA H100"), key, spec));
  TrialKey mode = key;
  mode.problem.dims[1].second = 1;
  EXPECT_LT(TrustIn(mode, key, spec), TrustIn(Key(2048), key, spec));
  TrialKey cpu = key;
  cpu.target = "cpu";
  EXPECT_EQ(TrustIn(cpu, key, spec), 0);
}

TEST_F(WarmStartTest, ChecksWhatClientsSend) {
  v1::Prior prior;
  v1::Prior::Source& source = *prior.add_sources();
  source.set_name("elsewhere");
  v1::Prior::Observation& observation = *source.add_observations();
  v1::ConfigEntry& entry = *observation.mutable_config()->add_entries();
  entry.set_param("THREADS");
  entry.mutable_value()->set_integer(64);
  EXPECT_FALSE(FromProto(prior, kernel_->spec()).ok()) << "no outcome";
  observation.set_outcome(v1::OUTCOME_OK);
  observation.set_relative_latency(0.5);
  EXPECT_THAT(FromProto(prior, kernel_->spec()).status().message(), HasSubstr("elsewhere"));
  observation.set_relative_latency(1.25);
  auto warm_start = FromProto(prior, kernel_->spec());
  ASSERT_TRUE(warm_start.ok()) << warm_start.status();
  EXPECT_EQ(warm_start->prior[0].relative_latency, 1.25);
  EXPECT_EQ(ToText(warm_start->prior[0].config), "THREADS=64");
  for (size_t i = 0; i < kPriorObservationsMax; ++i) *source.add_observations() = observation;
  EXPECT_THAT(FromProto(prior, kernel_->spec()).status().message(), HasSubstr("at most 5000"));
}

TEST_F(WarmStartTest, APriorHasTheKernelsParamsAndABoundedSize) {
  v1::Prior prior;
  v1::Prior::Source& source = *prior.add_sources();
  source.set_name("elsewhere");
  v1::Prior::Observation observation;
  observation.set_outcome(v1::OUTCOME_OK);
  observation.set_relative_latency(1);
  v1::ConfigEntry& entry = *observation.mutable_config()->add_entries();
  entry.set_param("THREADS");
  entry.mutable_value()->set_integer(64);
  *source.add_observations() = observation;
  auto warm_start = FromProto(prior, kernel_->spec());
  ASSERT_TRUE(warm_start.ok()) << warm_start.status();
  EXPECT_GT(BytesOf(*warm_start), sizeof(PriorObservation));

  v1::Config& config = *source.mutable_observations(0)->mutable_config();
  config.mutable_entries(0)->set_param("BLOCK");
  EXPECT_THAT(FromProto(prior, kernel_->spec()).status().message(),
              HasSubstr("prior elsewhere: copy has no param 'BLOCK'"));
  *config.mutable_entries(0) = entry;
  *config.add_entries() = entry;
  const absl::Status refused = FromProto(prior, kernel_->spec()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("a config of 2 values; copy has 1 params"));

  entry.mutable_value()->set_text(std::string(10000, 'x'));
  source.clear_observations();
  for (int i = 0; i < 4000; ++i) *source.add_observations() = observation;
  EXPECT_THAT(FromProto(prior, kernel_->spec()).status().message(), HasSubstr("at most 32"));
}

// A colleague's private kernel of the same name says nothing about the catalogue's.
TEST_F(WarmStartTest, ANameSpaceStartsFromItsOwn) {
  Add(Key(2048), 64, 30);
  const auto private_sweep = store_->AddSweep({.kernel_hash = "hash",
                                               .name_space = "alice",
                                               .kernel_name = "alice/copy",
                                               .target = "sm_90a"});
  ASSERT_TRUE(private_sweep.ok()) << private_sweep.status();
  sweep_id_ = private_sweep->id;
  Add(Key(4096), 128, 50);
  const auto sources = [&](const std::string& name) {
    return GatherWarmStart(*store_, {}, name, *kernel_, Key(1024), 100)->sources;
  };
  EXPECT_THAT(sources("copy"), testing::ElementsAre(HasSubstr("n=2048")));
  EXPECT_THAT(sources("alice/copy"), testing::ElementsAre(HasSubstr("n=4096")));
  EXPECT_THAT(sources("bob/copy"), testing::IsEmpty());
}

}  // namespace
}  // namespace tune::server
