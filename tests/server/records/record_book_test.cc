// SPDX-License-Identifier: Apache-2.0
// The index that a book keeps for the next one: when it is taken, and when it is made again.
#include "server/records/record_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "db/store.h"
#include "kernels/catalogue.h"
#include "server/records/record_convert.h"
#include "server/wire/spec.h"
#include "tests/server/scripted_gpus.h"

namespace tune::server {
namespace {

constexpr char kBookSpec[] = R"spec(
name: "mine" source: "k.cu" entry: "k"
dims { name: "n" default_value: 1000 match: DIM_MATCH_BUCKETED }
dtypes: "f32"
params { name: "THREADS" values: "range(1, 1025)" default_value: "32" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "THREADS" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { entry: "r" launch { grid: "1" block: "1" } }
)spec";
constexpr size_t kWorthAFile = 2;  // records
constexpr char kBookDevice[] = "NVIDIA Test GPU";

class RecordBookTest : public testing::Test {
 protected:
  RecordBookTest() {
    workers_ = gpus_.StartWorkers();
    store_ = db::Store::Open(gpus_.Path("tune.db")).value();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
    const std::map<std::string, std::string> files = {{"k.cu", "text"}};
    const auto kernel = ReadKernel("mine.textproto", kBookSpec, files).value();
    hash_ = kernel->hash();
    const db::KernelRow row{.hash = hash_,
                            .name = "mine",
                            .spec_name = "mine.textproto",
                            .spec_text = kBookSpec,
                            .files = files};
    EXPECT_TRUE(store_->PutKernel(row).ok());
  }

  std::string path() const { return gpus_.Path("records.index"); }
  // A file from two records on, and another with two more. The shipped ones are in it, too.
  std::unique_ptr<RecordBook> Open() {
    return RecordBook::Open(
               *store_, catalogue_, *devices_, solver_,
               {.path = path(), .worth_a_file = kWorthAFile, .worth_another = kWorthAFile})
        .value();
  }
  // Until what was written is answered from. One that is published meanwhile is not worth another.
  static void AwaitFile(const RecordBook& book) {
    const absl::Time limit = absl::Now() + absl::Seconds(60);
    while (book.snapshot()->unsaved_count() >= kWorthAFile && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    ASSERT_LT(book.snapshot()->unsaved_count(), kWorthAFile);
  }
  // A record as a sweep leaves it before it publishes.
  lookup::Record Measured(int64_t n, int64_t threads, const std::string& device = kBookDevice,
                          const std::string& target = "sm_90a") {
    lookup::Record record{.kernel_name = "mine", .default_latency_ns = 7};
    record.key = {.kernel_hash = hash_,
                  .problem = {.dims = {{"n", n}}, .dtype = DType::kF32},
                  .device_name = device,
                  .target = target};
    record.trial.config.entries = {{"THREADS", threads}};
    db::SweepRow sweep{.job = {.state = db::JobState::kDone, .finished_unix_ms = 5},
                       .kernel_hash = hash_,
                       .kernel_name = "mine",
                       .problem = record.key.problem,
                       .device_name = device,
                       .target = target,
                       .strategy = "auto"};
    sweep = store_->AddSweep(sweep).value();
    record.trial.sweep_id = sweep.id;
    record.trial.purpose = TrialPurpose::kConfirm;
    record.trial.measurement.latency_ns_median = 1000;
    record.trial.id = store_->AppendTrial(record.trial, record.key).value();
    sweep.best_trial_id = record.trial.id;
    EXPECT_TRUE(store_->UpdateSweep(sweep).ok());
    return record;
  }
  static int64_t Threads(const RecordBook& book, int64_t n) {
    const auto answer =
        book.Lookup({.kernel_name = "mine", .dims = {{"n", n}}, .device = kBookDevice});
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok() || answer->record == nullptr) return 0;
    return std::get<int64_t>(answer->config.entries.front().second);
  }

  ScriptedGpus gpus_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Devices> devices_;
  Catalogue catalogue_;
  SpaceSolver solver_;
  std::string hash_;
};

// Slices (MIG) and shares (MPS) of a card: see tuner/gpu_part.h.
TEST_F(RecordBookTest, ARecordOfAPartDoesNotAnswerForTheWholeCard) {
  gpus_.Tell(0, "--name H200 --sms 132 --memory 140");
  ASSERT_TRUE(devices_->List(absl::Now() + absl::Seconds(60)).ok());
  const std::unique_ptr<RecordBook> book = Open();
  ASSERT_TRUE(book->Publish(Measured(1000, 64, "H200 (16 SMs, 16 GiB)")).ok());
  const RecordQuery query = {.kernel_name = "mine", .dims = {{"n", 1000}}, .device = "cuda:0"};
  EXPECT_EQ(book->Lookup(query)->match, lookup::Match::kOtherDevice);
  ASSERT_TRUE(book->Publish(Measured(1000, 128, "H200")).ok());
  const auto whole = book->Lookup(query);
  EXPECT_EQ(whole->match, lookup::Match::kExact);
  EXPECT_EQ(whole->record->key.device_name, "H200");
}

TEST_F(RecordBookTest, TheNextBookTakesTheIndexAndWhatIsNewer) {
  {
    const auto book = Open();
    ASSERT_TRUE(book->Publish(Measured(64, 2)).ok());
    ASSERT_TRUE(book->Publish(Measured(4096, 3)).ok());
    AwaitFile(*book);
    ASSERT_TRUE(book->Publish(Measured(64, 4)).ok());
    EXPECT_EQ(book->snapshot()->unsaved_count(), 1u);
  }
  Measured(1024, 5);  // and then the daemon was killed
  const auto book = Open();
  EXPECT_EQ(book->snapshot()->unsaved_count(), 2u) << "the file was taken";
  EXPECT_EQ(Threads(*book, 64), 4) << "published after the file was written";
  EXPECT_EQ(Threads(*book, 4000), 3);
  EXPECT_EQ(Threads(*book, 1024), 5) << "what a crash had held back";
  EXPECT_EQ(book->snapshot()->snapshot_id(), 4);
}

TEST_F(RecordBookTest, AnswersAreTheSameFromTheFileAndFromTheStore) {
  const auto book = Open();
  for (int64_t n = 1; n <= 40; ++n) ASSERT_TRUE(book->Publish(Measured(n * n, n)).ok());
  AwaitFile(*book);
  const auto loaded = RecordBook::Open(*store_, catalogue_, *devices_, solver_).value();
  const auto kept = Open();
  ASSERT_LT(kept->snapshot()->unsaved_count(), kept->snapshot()->record_count());
  for (int64_t n = 1; n <= 1700; n += 7) EXPECT_EQ(Threads(*kept, n), Threads(*loaded, n)) << n;
  const auto records = kept->snapshot()->Records();
  const auto others = loaded->snapshot()->Records();
  ASSERT_EQ(records.size(), others.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(ToProto(*records[i]).SerializeAsString(), ToProto(*others[i]).SerializeAsString());
  }
}

TEST_F(RecordBookTest, ARecordOfTheFileIsSentAsItLiesThere) {
  const auto book = Open();
  ASSERT_TRUE(book->Publish(Measured(64, 2)).ok());
  const auto sent = [&](int64_t n) {
    const RecordAnswer answer =
        book->Lookup({.kernel_name = "mine", .dims = {{"n", n}}, .device = kBookDevice}).value();
    v1::LookupResponse response, received;
    AddRecord(*answer.record, answer.record_on_wire, response);
    EXPECT_TRUE(received.ParseFromString(response.SerializeAsString()));
    EXPECT_EQ(received.record().SerializeAsString(), ToProto(*answer.record).SerializeAsString());
    return std::make_pair(received.record().id(), answer.record_on_wire.empty());
  };
  EXPECT_EQ(sent(64), std::make_pair(int64_t{1}, true)) << "it is in no file";
  ASSERT_TRUE(book->Publish(Measured(4096, 3)).ok());
  AwaitFile(*book);
  EXPECT_EQ(sent(64), std::make_pair(int64_t{1}, false));
  EXPECT_EQ(sent(60), std::make_pair(int64_t{1}, false)) << "another problem's";
  ASSERT_TRUE(book->Publish(Measured(64, 4)).ok());
  EXPECT_EQ(sent(64), std::make_pair(int64_t{3}, true)) << "newer than the file";
}

TEST_F(RecordBookTest, AnIndexThatIsNotOfThisStoreIsMadeAgain) {
  {
    const auto book = Open();
    ASSERT_TRUE(book->Publish(Measured(64, 2)).ok());
    ASSERT_TRUE(book->Publish(Measured(4096, 3)).ok());
    AwaitFile(*book);
  }
  std::filesystem::copy_file(path(), path() + ".kept");
  // As a backup of an earlier day in the place of the store: the index has what it lacks.
  devices_.reset();
  store_ = db::Store::Open(gpus_.Path("backup.db")).value();
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  {
    const auto book = Open();
    EXPECT_FALSE(book->Lookup({.kernel_name = "mine"}).ok());
  }
  devices_.reset();
  store_ = db::Store::Open(gpus_.Path("tune.db")).value();
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  std::filesystem::rename(path() + ".kept", path());
  std::ofstream(path(), std::ios::binary | std::ios::in) << "garbage";
  const auto book = Open();
  EXPECT_EQ(Threads(*book, 64), 2);
  AwaitFile(*book);
  EXPECT_EQ(Threads(*Open(), 64), 2);
}

TEST_F(RecordBookTest, AGpuThatNobodyKnowsNeverGetsACpusConfig) {
  const auto book = Open();
  ASSERT_TRUE(book->Publish(Measured(64, 2, "cpu:Old", "cpu")).ok());
  const auto ask = [&](const std::string& device) {
    return book->Lookup({.kernel_name = "mine", .dims = {{"n", 64}}, .device = device}).value();
  };
  RecordAnswer answer = ask("NVIDIA B300");
  EXPECT_EQ(answer.match, lookup::Match::kNone);
  EXPECT_EQ(answer.traits.target, "sm_103a");
  EXPECT_THAT(answer.reason, testing::HasSubstr("device 'NVIDIA B300' is not known here"));
  ASSERT_TRUE(book->Publish(Measured(64, 3)).ok());
  answer = ask("NVIDIA H100");
  EXPECT_EQ(answer.match, lookup::Match::kOtherDevice) << answer.reason;
  EXPECT_EQ(answer.record->key.device_name, kBookDevice);
  EXPECT_EQ(ask("cuda").device_name, kBookDevice) << "the newest GPU that has records";
}

// Within tunectl a look-up opens no device.
TEST_F(RecordBookTest, AGpuThatWasNotOpenedGoesByWhatItsDriverCallsIt) {
  std::ofstream(gpus_.Path("gpus/0/information")) << "Model: \t\t NVIDIA H200\nIRQ:   \t\t 11\n";
  devices_.reset();
  workers_ = gpus_.StartWorkers();
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  const auto book = Open();
  ASSERT_TRUE(book->Publish(Measured(64, 2, "NVIDIA H100 80GB HBM3")).ok());
  for (const std::string device : {"", "cuda", "cuda:0"}) {
    const RecordAnswer answer =
        book->Lookup({.kernel_name = "mine", .dims = {{"n", 64}}, .device = device}).value();
    EXPECT_EQ(answer.device_name, "NVIDIA H200") << device;
    EXPECT_EQ(answer.match, lookup::Match::kOtherDevice) << answer.reason;
    EXPECT_EQ(answer.record->key.device_name, "NVIDIA H100 80GB HBM3");
  }
}

TEST_F(RecordBookTest, OfSeveralModelsNobodyKnowsWhichHasAnId) {
  for (const std::string gpu : {"0", "1"}) {
    std::filesystem::create_directories(gpus_.Path("gpus/" + gpu));
    std::ofstream(gpus_.Path("gpus/" + gpu + "/information")) << "Model: NVIDIA H20" << gpu << "\n";
  }
  devices_.reset();
  workers_ = gpus_.StartWorkers();
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  const auto book = Open();
  ASSERT_TRUE(book->Publish(Measured(64, 2)).ok());
  const auto answer =
      book->Lookup({.kernel_name = "mine", .dims = {{"n", 64}}, .device = "cuda:0"}).value();
  EXPECT_EQ(answer.device_name, kBookDevice) << "the newest GPU that has records";
}

// Whoever keeps an answer asks with its version whether it still is one.
TEST_F(RecordBookTest, TheVersionChangesWithTheRecordsAndWithTheDevices) {
  const auto book = Open();
  uint64_t before = book->version();
  EXPECT_EQ(book->version(), before);
  ASSERT_TRUE(book->Publish(Measured(64, 2)).ok());
  EXPECT_NE(book->version(), before);
  before = book->version();
  workers_->devices().front()->Open().IgnoreError();
  EXPECT_NE(book->version(), before) << "its name is known now, or why it cannot be used";
}

// The first question about a kernel reads its shipped records; answers are as if all were read.
TEST_F(RecordBookTest, ABookForOneQuestionAnswersAsADaemons) {
  std::vector<absl::Status> faults;
  const Catalogue catalogue = Catalogue::Parse(LoadCatalogue().value(), faults);
  const auto open = [&](GridsTime time) {
    return RecordBook::Open(*store_, catalogue, *devices_, solver_, {}, {}, time).value();
  };
  const auto daemons = open(GridsTime::kAtOnce);
  const auto own = open(GridsTime::kWhenAsked);
  for (const RecordQuery& query : std::vector<RecordQuery>{
           {.kernel_name = "attention", .dims = {{"seq", 4096}}, .device = "NVIDIA H200"},
           {.kernel_name = "attention", .dims = {{"seq", 9000}}, .device = "NVIDIA H100 80GB HBM3"},
           {.kernel_name = "softmax", .dims = {{"rows", 5000}, {"cols", 70000}}, .device = "H200"},
           {.kernel_name = "gemm", .dims = {{"m", 700}}, .device = "NVIDIA GH200 480GB"}}) {
    const auto wanted = daemons->Lookup(query);
    const auto answer = own->Lookup(query);
    ASSERT_TRUE(wanted.ok() && answer.ok()) << wanted.status() << answer.status();
    EXPECT_EQ(answer->match, wanted->match);
    EXPECT_EQ(answer->reason, wanted->reason);
    EXPECT_EQ(ToText(answer->config), ToText(wanted->config));
    EXPECT_EQ(answer->expectation.loss, wanted->expectation.loss);
  }
  EXPECT_EQ(own->snapshot()->Records().size(), daemons->snapshot()->Records().size());
}

}  // namespace
}  // namespace tune::server
