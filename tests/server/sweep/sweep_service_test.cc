// SPDX-License-Identifier: Apache-2.0
// Sweeps from request to record, on the CPU device.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/devices/device_convert.h"
#include "server/records/record_convert.h"
#include "server/server.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"
#include "tests/server/test_server.h"
#include "tune/v1/sweep.pb.h"
#include "tuner/sweep/winner.h"

namespace tune::server {
namespace {

// One server for all tests: what one has compiled the others find in the cache.
class SweepServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)StartLog("error", LogFormat::kText);
    dir_ = new TempDir();
    server_ = Server::Start({.state_dir = dir_->path() + "/state",
                             .addresses = {"unix:" + dir_->path() + "/d.sock"},
                             .worker_dir = TUNE_BIN_DIR})
                  .value()
                  .release();
    stubs_ = new Stubs(
        grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials()));
  }
  static void TearDownTestSuite() {
    delete stubs_;
    delete server_;
    delete dir_;
  }

  static v1::SubmitSweepRequest MakeRequest(int64_t n, bool fresh = true) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel();
    (*request.mutable_dims())["n"] = n;
    request.set_device("cpu");
    request.set_strategy("exhaustive");
    request.mutable_budget()->set_seconds(300);
    request.set_seed(7);
    request.set_cache_mode(v1::CACHE_MODE_WARM);  // flushing takes far longer than the kernel
    request.set_fresh(fresh);
    return request;
  }
  static v1::Sweep Submit(const v1::SubmitSweepRequest& request) {
    v1::Sweep sweep;
    const grpc::Status status =
        Call(*stubs_->sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sweep;
  }
  static grpc::Status Refusal(const v1::SubmitSweepRequest& request) {
    v1::Sweep sweep;
    return Call(*stubs_->sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
  }
  static uint64_t Count(const v1::Sweep& sweep, const std::string& outcome) {
    const auto& outcomes = sweep.progress().outcomes();
    const auto it = outcomes.find(outcome);
    return it == outcomes.end() ? 0 : it->second;
  }
  static uint64_t Compiled(const v1::CheckKernelResponse& response) {
    const auto it = response.compiled().find("cpu");
    return it == response.compiled().end() ? 0 : it->second;
  }
  static v1::CheckKernelResponse Check(const v1::CheckKernelRequest& request,
                                       std::vector<v1::CheckProgress>* progress = nullptr) {
    grpc::ClientContext context;
    auto reader = stubs_->kernels->CheckKernel(&context, request);
    v1::CheckKernelResponse response;
    for (v1::CheckKernelEvent event; reader->Read(&event);) {
      if (event.has_progress() && progress != nullptr) progress->push_back(event.progress());
      if (event.has_response()) response = event.response();
    }
    EXPECT_TRUE(reader->Finish().ok());
    return response;
  }
  static std::vector<v1::Trial> Trials(int64_t id, bool with_samples = false) {
    grpc::ClientContext context;
    v1::ListTrialsRequest request;
    request.set_sweep_id(id);
    request.set_with_samples(with_samples);
    auto reader = stubs_->sweeps->ListTrials(&context, request);
    std::vector<v1::Trial> trials;
    for (v1::Trial trial; reader->Read(&trial);) trials.push_back(trial);
    EXPECT_TRUE(reader->Finish().ok());
    return trials;
  }
  static v1::LookupResponse Lookup(const std::string& kernel, int64_t n, int64_t mode = 0) {
    v1::LookupRequest request;
    request.set_kernel_name(kernel);
    (*request.mutable_dims())["n"] = n;
    (*request.mutable_dims())["mode"] = mode;
    request.set_device("cpu");
    v1::LookupResponse response;
    const grpc::Status status =
        Call(*stubs_->records, &v1::RecordService::Stub::Lookup, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  static inline TempDir* dir_ = nullptr;
  static inline Server* server_ = nullptr;
  static inline Stubs* stubs_ = nullptr;
};

void ExpectEachTrialOnce(const std::vector<v1::JobEvent>& events) {
  std::set<int64_t> seen;
  for (const v1::JobEvent& event : events) {
    for (const v1::Trial& trial : ResultsIn<v1::Trial>(event)) {
      EXPECT_TRUE(seen.insert(trial.id()).second) << trial.id();
    }
  }
}

TEST_F(SweepServiceTest, SweepsCheckNameAndPublish) {
  v1::SubmitSweepRequest request = MakeRequest(4096);
  request.clear_cache_mode();
  request.mutable_budget()->set_trials(4);
  const v1::Sweep submitted = Submit(request);
  EXPECT_EQ(submitted.cache_mode(), v1::CACHE_MODE_COLD);
  EXPECT_EQ(submitted.kernel_name(), "scale");
  EXPECT_EQ(submitted.kernel_hash().size(), 64u);
  EXPECT_EQ(submitted.device_id(), "cpu");
  EXPECT_EQ(submitted.target(), "cpu");
  EXPECT_EQ(submitted.problem().dtype(), "f32");
  EXPECT_EQ(submitted.progress().space_size(), 8u);

  std::vector<v1::JobEvent> events;
  FollowJob(*stubs_->jobs, submitted.job_id(), [&](const v1::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  const v1::Sweep done = AwaitEnd(*stubs_->sweeps, submitted.id());
  ASSERT_EQ(done.state(), v1::JOB_STATE_DONE) << done.message();
  EXPECT_EQ(done.progress().done(), 4u);
  EXPECT_EQ(done.progress().planned(), 4u);
  EXPECT_EQ(Count(done, "ok"), 4u);
  EXPECT_GT(done.finished_unix_ms(), done.created_unix_ms());
  const v1::SweepResult& result = done.result();
  EXPECT_EQ(result.best().outcome(), v1::OUTCOME_OK);
  EXPECT_GT(result.best().measurement().latency_ns_median(), 0);
  EXPECT_GT(result.best().measurement().bytes_per_second(), 0);
  EXPECT_EQ(result.best().measurement().clock(), v1::CLOCK_HOST);
  EXPECT_GT(result.default_trial().measurement().latency_ns_median(), 0);
  EXPECT_GT(result.speedup_over_default(), 0);
  EXPECT_EQ(result.ceiling_source(), v1::CEILING_SOURCE_MEASURED);
  EXPECT_NE(result.bound(), v1::BOUND_UNSPECIFIED);

  EXPECT_GE(events.size(), 2u);
  ExpectEachTrialOnce(events);

  const std::vector<v1::Trial> trials = Trials(submitted.id(), /*with_samples=*/true);
  EXPECT_GT(trials.size(), 4u) << "and the confirmation's";
  EXPECT_GT(trials[0].measurement().samples_ns_size(), 0);
  EXPECT_EQ(Trials(submitted.id())[0].measurement().samples_ns_size(), 0);

  const v1::LookupResponse exact = Lookup("scale", 4096);
  EXPECT_EQ(exact.match(), v1::MATCH_EXACT) << exact.reason();
  EXPECT_EQ(exact.config().SerializeAsString(), result.best().config().SerializeAsString());
  EXPECT_EQ(exact.record().sweep_id(), submitted.id());
  EXPECT_EQ(exact.record().trial_id(), result.best().id());
  EXPECT_GT(exact.record().measurement().sample_count(), 0u);
  EXPECT_GT(exact.snapshot_id(), 0);

  const v1::LookupResponse nearest = Lookup("scale", 5000);
  EXPECT_EQ(nearest.match(), v1::MATCH_NEAREST) << nearest.reason();
  const v1::LookupResponse other_mode = Lookup("scale", 4096, /*mode=*/1);
  EXPECT_EQ(other_mode.match(), v1::MATCH_DEFAULT) << other_mode.reason();

  v1::ListRecordsResponse records;
  ASSERT_TRUE(Call(*stubs_->records, &v1::RecordService::Stub::ListRecords,
                   v1::ListRecordsRequest(), &records)
                  .ok());
  EXPECT_GE(records.records_size(), 1);

  v1::GetDeviceRequest get_device;
  get_device.set_id("cpu");
  v1::Device device;
  ASSERT_TRUE(
      Call(*stubs_->devices, &v1::DeviceService::Stub::GetDevice, get_device, &device).ok());
  EXPECT_EQ(device.state(), v1::DEVICE_STATE_HEALTHY) << device.message();
  EXPECT_GT(device.ceilings_size(), 0) << "measured before the sweep";
  EXPECT_FALSE(device.compiler().empty());
}

// The kernel of docs/examples/steps: two launches a config and scratch between them.
TEST_F(SweepServiceTest, AKernelOfTwoStepsIsSweptAndPublished) {
  const auto read = [](const std::string& name) {
    std::ifstream file(EXAMPLE_DIR "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  v1::SubmitSweepRequest request = MakeRequest(1);
  request.clear_dims();
  (*request.mutable_dims())["rows"] = 2;
  (*request.mutable_dims())["cols"] = 10000;
  v1::KernelSource source;
  source.set_spec_name("split_sum.textproto");
  source.set_spec_text(read("split_sum.textproto"));
  (*source.mutable_files())["split_sum.cu"] = read("split_sum.cu");
  *request.mutable_kernel_source() = source;
  v1::CheckKernelRequest check;
  *check.mutable_kernel_source() = source;
  check.add_targets("cpu");
  check.set_all_variants(true);
  const v1::CheckKernelResponse checked = Check(check);
  EXPECT_EQ(Compiled(checked), 12u);
  EXPECT_EQ(checked.findings_size(), 0) << checked.ShortDebugString();
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, Submit(request).id());
  ASSERT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
  EXPECT_EQ(Count(sweep, "ok"), 12u);
  EXPECT_GT(sweep.result().best().measurement().latency_ns_median(), 0);
}

TEST_F(SweepServiceTest, TheNewestSourceOfAKernelAnswers) {
  v1::SubmitSweepRequest request = MakeRequest(4096);
  request.mutable_budget()->set_trials(1);
  std::string& spec = *request.mutable_kernel_source()->mutable_spec_text();
  spec.replace(spec.find("scale"), 5, "newer");
  std::string& code = request.mutable_kernel_source()->mutable_files()->at("scale.cu");
  for (int i = 0; i < 2; ++i) {
    const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, Submit(request).id());
    const v1::LookupResponse found = Lookup("newer", 4096);
    EXPECT_EQ(found.match(), v1::MATCH_EXACT) << found.reason();
    EXPECT_EQ(found.record().kernel_hash(), sweep.kernel_hash());
    EXPECT_EQ(found.record().sweep_id(), sweep.id());
    EXPECT_EQ(found.record().seed(), 7u);
    EXPECT_EQ(found.record().resources().binary_sha256(),
              sweep.result().best().resources().binary_sha256());
    code += "// later";
  }
}

TEST_F(SweepServiceTest, TheVerdictCanBeHadAgainFromTheStore) {
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(3000)).id());
  ASSERT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
  const v1::SweepResult& result = sweep.result();
  EXPECT_GE(result.confirm_rounds(), 3u);
  const std::vector<v1::Trial> stored = Trials(sweep.id(), /*with_samples=*/true);
  ASSERT_EQ(stored.size(), 16u) << "8 configs, each found and confirmed";
  Finals finals{.rounds = static_cast<int>(result.confirm_rounds())};
  for (size_t i = 8; i < stored.size(); ++i) {
    const v1::Trial& trial = stored[i];
    EXPECT_EQ(trial.measurement().samples_ns_size() % finals.rounds, 0);
    Trial final{.id = trial.id(), .config = FromProto(trial.config())};
    const auto& samples_ns = trial.measurement().samples_ns();
    final.measurement.samples_ns = {samples_ns.begin(), samples_ns.end()};
    final.measurement.latency_ns_median = trial.measurement().latency_ns_median();
    final.measurement.latency_ns_low = trial.measurement().latency_ns_low();
    final.measurement.latency_ns_high = trial.measurement().latency_ns_high();
    finals.trials.push_back(std::move(final));
  }
  const Winner winner = NameWinner(finals, FromProto(result.default_trial().config())).value();
  EXPECT_EQ(winner.best.id, result.best().id());
  EXPECT_EQ(winner.default_trial->id, result.default_trial().id());
  std::vector<int64_t> ties, reported;
  for (const Trial& tie : winner.ties) ties.push_back(tie.id);
  for (const v1::Trial& tie : result.ties()) reported.push_back(tie.id());
  EXPECT_EQ(ties, reported);
  EXPECT_GE(result.speedup_over_default(), 1);
}

TEST_F(SweepServiceTest, TheSameSweepAgainContinuesAndAFreshOneDoesNot) {
  const v1::Sweep first = Submit(MakeRequest(2048));
  AwaitEnd(*stubs_->sweeps, first.id());
  const v1::Sweep again = Submit(MakeRequest(2048, /*fresh=*/false));
  EXPECT_NE(again.id(), first.id());
  const v1::Sweep reused = AwaitEnd(*stubs_->sweeps, again.id());
  ASSERT_EQ(reused.state(), v1::JOB_STATE_DONE) << reused.message();
  EXPECT_EQ(reused.progress().reused(), 8u);
  EXPECT_EQ(reused.progress().done(), 8u);
  EXPECT_TRUE(reused.has_result());
  const v1::Sweep fresh = AwaitEnd(*stubs_->sweeps, Submit(MakeRequest(2048)).id());
  EXPECT_EQ(fresh.progress().reused(), 0u);
  EXPECT_GT(fresh.progress().compile_cache_hits(), 0u);
  // What was reused is still there after it was measured anew, and the fresh one reused nothing.
  for (const auto& [sweep, expected] : {std::pair(again.id(), 8), std::pair(fresh.id(), 0)}) {
    grpc::ClientContext context;
    v1::ListTrialsRequest request;
    request.set_sweep_id(sweep);
    request.set_with_reused(true);
    auto reader = stubs_->sweeps->ListTrials(&context, request);
    int from_first = 0;
    for (v1::Trial trial; reader->Read(&trial);) from_first += trial.sweep_id() == first.id();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(from_first, expected) << sweep;
  }
}

TEST_F(SweepServiceTest, ASweepThatSawLittleIsHeldAgainstTheRecord) {
  v1::SubmitSweepRequest request = MakeRequest(700);
  request.mutable_budget()->set_seconds(40);
  const v1::Sweep whole = AwaitEnd(*stubs_->sweeps, Submit(request).id());
  ASSERT_TRUE(whole.has_result()) << whole.message();
  const Config best = FromProto(whole.result().best().config());
  request.set_strategy("random");
  request.mutable_budget()->set_trials(1);
  const v1::Sweep little = AwaitEnd(*stubs_->sweeps, Submit(request).id());
  ASSERT_TRUE(little.has_result()) << little.message();
  const std::vector<v1::Trial> trials = Trials(little.id());
  EXPECT_TRUE(std::any_of(trials.begin(), trials.end(), [&](const v1::Trial& trial) {
    return trial.purpose() == v1::TRIAL_PURPOSE_CONFIRM && FromProto(trial.config()) == best;
  }));
}

TEST_F(SweepServiceTest, AWrongVariantIsAnOutcome) {
  v1::SubmitSweepRequest request = MakeRequest(1024);
  *request.mutable_kernel_source() = ScaleKernel({.faulty = true});
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, Submit(request).id());
  ASSERT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
  EXPECT_EQ(Count(sweep, "wrong_result"), 1u);
  EXPECT_EQ(Count(sweep, "ok"), 7u);
  bool found = false;
  for (const v1::Trial& trial : Trials(sweep.id())) {
    if (trial.outcome() != v1::OUTCOME_WRONG_RESULT) continue;
    found = true;
    EXPECT_GT(trial.error().bad_elements(), 0u);
    EXPECT_FALSE(trial.message().empty());
  }
  EXPECT_TRUE(found);
}

TEST_F(SweepServiceTest, CancelKeepsWhatIsDoneAndNamesTheBest) {
  v1::SubmitSweepRequest request = MakeRequest(1 << 20);
  *request.mutable_kernel_source() = ScaleKernel({.items = "range(1, 17)"});
  const v1::Sweep submitted = Submit(request);
  const int64_t id = submitted.id();
  v1::Sweep last;
  bool asked = false;
  const grpc::Status status =
      FollowJob(*stubs_->jobs, submitted.job_id(), [&](const v1::JobEvent& event) {
        for (const v1::Sweep& sweep : ResultsIn<v1::Sweep>(event)) last = sweep;
        if (last.progress().done() > 0 && !std::exchange(asked, true)) {
          EXPECT_TRUE(CancelJob(*stubs_->jobs, submitted.job_id()).ok());
        }
        return true;
      });
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Sweep cancelled = AwaitEnd(*stubs_->sweeps, id);
  EXPECT_EQ(cancelled.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_GT(cancelled.progress().done(), 0u);
  EXPECT_LT(cancelled.progress().done(), cancelled.progress().planned());
  EXPECT_GE(Trials(id).size(), cancelled.progress().done());
  EXPECT_EQ(cancelled.result().best().outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(last.state(), v1::JOB_STATE_CANCELLED) << "the last event";
}

TEST_F(SweepServiceTest, AWatcherThatNeverReadsHoldsNobodyUp) {
  const v1::Sweep sweep = Submit(MakeRequest(512));
  v1::WatchJobRequest watch;
  watch.set_job_id(sweep.job_id());
  grpc::ClientContext stalled_context;
  auto stalled = stubs_->jobs->WatchJob(&stalled_context, watch);
  EXPECT_EQ(AwaitEnd(*stubs_->sweeps, sweep.id()).state(), v1::JOB_STATE_DONE);
  stalled_context.TryCancel();
  EXPECT_EQ(stalled->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SweepServiceTest, AFinishedSweepCanBeWatched) {
  const v1::Sweep sweep = Submit(MakeRequest(512));
  AwaitEnd(*stubs_->sweeps, sweep.id());
  std::vector<v1::JobEvent> events;
  FollowJob(*stubs_->jobs, sweep.job_id(), [&](const v1::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  ASSERT_GE(events.size(), 1u);
  const std::vector<v1::Sweep> results = ResultsIn<v1::Sweep>(events.back());
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].state(), v1::JOB_STATE_DONE);
}

TEST_F(SweepServiceTest, SameIdempotencyKeySameSweep) {
  v1::SubmitSweepRequest request = MakeRequest(512);
  request.set_idempotency_key("twice");
  const int64_t id = Submit(request).id();
  EXPECT_EQ(Submit(request).id(), id);
  AwaitEnd(*stubs_->sweeps, id);
  EXPECT_EQ(Submit(request).id(), id);
  request.mutable_prior()->add_sources()->set_name("elsewhere");
  EXPECT_EQ(Refusal(request).error_code(), grpc::StatusCode::ALREADY_EXISTS) << "another prior";
}

TEST_F(SweepServiceTest, BudgetInTrials) {
  v1::SubmitSweepRequest request = MakeRequest(512);
  request.clear_strategy();
  request.mutable_budget()->set_trials(3);
  const v1::Sweep submitted = Submit(request);
  EXPECT_EQ(submitted.strategy(), "auto");
  EXPECT_EQ(submitted.progress().planned(), 3u);
  EXPECT_EQ(AwaitEnd(*stubs_->sweeps, submitted.id()).progress().done(), 3u);
}

TEST_F(SweepServiceTest, WrongRequestsSayWhatIsWrong) {
  struct Case {
    void (*spoil)(v1::SubmitSweepRequest&);
    grpc::StatusCode code;
    std::string said;
  };
  const Case cases[] = {
      {[](auto& r) { r.clear_kernel(); }, grpc::StatusCode::INVALID_ARGUMENT, "no kernel"},
      {[](auto& r) { r.set_kernel_name("nope"); }, grpc::StatusCode::NOT_FOUND, "rope"},
      {[](auto& r) { r.set_device("cuda:77"); }, grpc::StatusCode::NOT_FOUND, "cpu"},
      {[](auto& r) { (*r.mutable_dims())["rows"] = 1; }, grpc::StatusCode::INVALID_ARGUMENT,
       "rows"},
      {[](auto& r) { (*r.mutable_dims())["n"] = 0; }, grpc::StatusCode::INVALID_ARGUMENT, "n"},
      {[](auto& r) { (*r.mutable_dims())["mode"] = 2; }, grpc::StatusCode::INVALID_ARGUMENT,
       "mode"},
      {[](auto& r) { r.set_dtype("f64"); }, grpc::StatusCode::INVALID_ARGUMENT, "f32"},
      {[](auto& r) { r.set_strategy("magic"); }, grpc::StatusCode::INVALID_ARGUMENT, "random"},
      {[](auto& r) { r.mutable_budget()->set_seconds(-1); }, grpc::StatusCode::INVALID_ARGUMENT,
       "budget"},
      {[](auto& r) { r.set_idempotency_key(std::string(200, 'x')); },
       grpc::StatusCode::INVALID_ARGUMENT, "128"},
      {[](auto& r) { (*r.mutable_dims())["n"] = 8; }, grpc::StatusCode::INVALID_ARGUMENT,
       "THREADS <= n"},
      {[](auto& r) {
         std::string& text = *r.mutable_kernel_source()->mutable_spec_text();
         text.replace(text.find("THREADS <= n"), 12, "THREADS <= m");
       },
       grpc::StatusCode::INVALID_ARGUMENT, "scale.textproto:10:"},
      {[](auto& r) { r.mutable_kernel_source()->mutable_files()->clear(); },
       grpc::StatusCode::INVALID_ARGUMENT, "scale.cu"},
  };
  for (const Case& wrong : cases) {
    v1::SubmitSweepRequest request = MakeRequest(4096);
    wrong.spoil(request);
    const grpc::Status status = Refusal(request);
    EXPECT_EQ(status.error_code(), wrong.code) << status.error_message();
    EXPECT_NE(status.error_message().find(wrong.said), std::string::npos)
        << status.error_message() << " does not say " << wrong.said;
  }
}

TEST_F(SweepServiceTest, AReferenceThatDoesNotCompileFailsTheSweep) {
  v1::SubmitSweepRequest request = MakeRequest(4096);
  (*request.mutable_kernel_source()->mutable_files())["scale.cu"] += "\n#error not finished\n";
  const v1::Sweep sweep = AwaitEnd(*stubs_->sweeps, Submit(request).id());
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_FAILED);
  EXPECT_NE(sweep.message().find("reference"), std::string::npos) << sweep.message();
  EXPECT_FALSE(sweep.has_result());
}

TEST_F(SweepServiceTest, KernelCheckCompilesAndFindsFaults) {
  v1::CheckKernelRequest request;
  *request.mutable_kernel_source() = ScaleKernel();
  request.add_targets("cpu");
  v1::CheckKernelResponse response = Check(request);
  EXPECT_EQ(response.findings_size(), 0) << response.DebugString();
  EXPECT_EQ(Compiled(response), 1u);
  EXPECT_EQ(response.kernel().space_sizes().at("cpu"), 8u);

  // Of a source that no test has compiled. A slow reader misses what came first.
  std::string& source = (*request.mutable_kernel_source()->mutable_files())["scale.cu"];
  source += "\n// checked\n";
  request.set_all_variants(true);
  std::vector<v1::CheckProgress> progress;
  response = Check(request, &progress);
  EXPECT_EQ(Compiled(response), 8u);
  ASSERT_GE(progress.size(), 1u);
  EXPECT_EQ(progress.front().total(), 8u);
  EXPECT_EQ(progress.back().done(), 8u);
  EXPECT_TRUE(std::ranges::is_sorted(progress, {}, &v1::CheckProgress::done));
  EXPECT_EQ(progress.back().target(), "cpu");

  source += "\n#if !defined(TUNE_REFERENCE) && ITEMS == 4\n#error four is too many\n#endif\n";
  response = Check(request);
  EXPECT_EQ(Compiled(response), 4u);
  ASSERT_EQ(response.findings_size(), 1) << "one mistake\n" << response.DebugString();
  EXPECT_EQ(response.findings(0).where().find("cpu THREADS="), 0u) << response.DebugString();
  EXPECT_NE(response.findings(0).where().find(" and 3 more configs"), std::string::npos);
  EXPECT_NE(response.findings(0).message().find("four is too many"), std::string::npos);
  EXPECT_EQ(response.findings(0).variants(), 4u);

  std::string& spec = *request.mutable_kernel_source()->mutable_spec_text();
  spec.replace(spec.find("THREADS <= n"), 12, "THREADS <= m");
  response = Check(request);
  ASSERT_EQ(response.findings_size(), 1);
  EXPECT_EQ(response.findings(0).where().find("scale.textproto:10:"), 0u);
  EXPECT_FALSE(response.has_kernel());
}

// What people write by mistake, what the check says of it, and what a sweep says.
struct Mistake {
  const char* file;  // "scale.cu" or the spec
  const char* from;
  const char* to;
  const char* where;
  const char* message;
};

const Mistake kMistakes[] = {
    {"scale.cu", "extern \"C\" __global__ void scale(", "extern \"C\" void scale(",
     "scale.cu:", "'scale' is no kernel: it is not __global__"},
    {"scale.textproto", "entry: \"scale\"", "entry: \"scales\"", "scale.cu",
     "the source has no kernel 'scales'; it has: "},
    {"scale.cu", "extern \"C\" __global__ void scale(",
     "#define ITEMS 2\nextern \"C\" __global__ void scale(",
     "scale.cu:", "the source redefines ITEMS, which the spec defines"},
};

TEST_F(SweepServiceTest, MistakesOfTheSourceStopChecksAndSweepsAtOnce) {
  for (const Mistake& mistake : kMistakes) {
    SCOPED_TRACE(mistake.to);
    v1::KernelSource kernel = ScaleKernel();
    std::string& text = std::string(mistake.file) == "scale.cu"
                            ? (*kernel.mutable_files())["scale.cu"]
                            : *kernel.mutable_spec_text();
    const size_t at = text.find(mistake.from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, std::string(mistake.from).size(), mistake.to);

    v1::CheckKernelRequest request;
    *request.mutable_kernel_source() = kernel;
    const v1::CheckKernelResponse response = Check(request);
    ASSERT_EQ(response.findings_size(), 1) << response.DebugString();
    EXPECT_EQ(response.findings(0).where().find(mistake.where), 0u) << response.DebugString();
    EXPECT_NE(response.findings(0).message().find(mistake.message), std::string::npos)
        << response.DebugString();
    EXPECT_EQ(response.findings(0).severity(), v1::CHECK_SEVERITY_ERROR);

    v1::SubmitSweepRequest sweep = MakeRequest(512);
    *sweep.mutable_kernel_source() = kernel;
    const grpc::Status refused = Refusal(sweep);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(refused.error_message().find(mistake.message), std::string::npos)
        << refused.error_message();
  }
}

TEST_F(SweepServiceTest, ArgsThatDoNotFitStopASweepBeforeItsFirstTrial) {
  for (const bool reference : {false, true}) {
    v1::KernelSource kernel = ScaleKernel();
    std::string& text = (*kernel.mutable_files())["scale.cu"];
    const std::string name = reference ? "scale_reference(" : "void scale(";
    const size_t at = text.find(name);
    ASSERT_NE(at, std::string::npos) << text;
    text.insert(at + name.size(), "int first, ");

    v1::CheckKernelRequest request;
    *request.mutable_kernel_source() = kernel;
    request.add_targets("cpu");
    const v1::CheckKernelResponse response = Check(request);
    ASSERT_EQ(response.findings_size(), 1) << response.DebugString();
    const std::string& message = response.findings(0).message();
    EXPECT_NE(message.find("parameters; the spec has "), std::string::npos) << message;
    EXPECT_NE(message.find("parameter 1 of 'scale"), std::string::npos) << message;
    EXPECT_NE(message.find("is 'int first'"), std::string::npos) << message;

    v1::SubmitSweepRequest sweep = MakeRequest(512);
    *sweep.mutable_kernel_source() = kernel;
    const v1::Sweep submitted = Submit(sweep);
    const v1::Sweep done = AwaitEnd(*stubs_->sweeps, submitted.id());
    EXPECT_EQ(done.state(), v1::JOB_STATE_FAILED);
    EXPECT_NE(done.message().find("is 'int first'"), std::string::npos) << done.message();
    EXPECT_EQ(Trials(submitted.id()).size(), 0u);
  }
}

TEST_F(SweepServiceTest, WhatMayBeMeantIsAWarning) {
  v1::KernelSource kernel = ScaleKernel();
  std::string& text = (*kernel.mutable_files())["scale.cu"];
  text.insert(0, "#if ITEMS > 1000\n#undef ITEMS\n#endif\n");
  v1::CheckKernelRequest request;
  *request.mutable_kernel_source() = kernel;
  request.add_targets("cpu");
  const v1::CheckKernelResponse response = Check(request);
  ASSERT_EQ(response.findings_size(), 1) << response.DebugString();
  EXPECT_EQ(response.findings(0).severity(), v1::CHECK_SEVERITY_WARNING);
  EXPECT_EQ(response.findings(0).where(), "scale.cu:2");
  EXPECT_EQ(Compiled(response), 1u);
  v1::SubmitSweepRequest sweep = MakeRequest(512);
  *sweep.mutable_kernel_source() = kernel;
  const v1::Sweep submitted = Submit(sweep);
  ASSERT_EQ(submitted.warnings_size(), 1);
  EXPECT_NE(submitted.warnings(0).find("scale.cu:2: the source may undefine ITEMS"),
            std::string::npos)
      << submitted.warnings(0);
  AwaitEnd(*stubs_->sweeps, submitted.id());
}

}  // namespace
}  // namespace tune::server
