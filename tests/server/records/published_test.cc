// SPDX-License-Identifier: Apache-2.0
// Whatever comes between the sweeps of a daemon and its restarts, what is published are the winners
// that were confirmed, each once. Histories are drawn; a seed that fails is in the message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "server/records/record_book.h"
#include "server/wire/spec.h"
#include "tests/db/faulty_disk.h"
#include "tests/server/scripted_gpus.h"

namespace tune::server {
namespace {

constexpr char kSpec[] = R"spec(
name: "mine" source: "k.cu" entry: "k"
dims { name: "n" default_value: 1000 }
dtypes: "f32"
params { name: "THREADS" values: "range(1, 1025)" default_value: "32" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "THREADS" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { entry: "r" launch { grid: "1" block: "1" } }
)spec";
constexpr char kDevice[] = "NVIDIA Test GPU";
constexpr int kSteps = 40;

// A daemon's store and its records, and what must be in them.
class History {
 public:
  explicit History(uint32_t seed) : random_(seed) {
    workers_ = gpus_.StartWorkers();
    Start();
    const auto kernel = ReadKernel("mine.textproto", kSpec, kFiles).value();
    hash_ = kernel->hash();
    EXPECT_TRUE(store_
                    ->PutKernel({.hash = hash_,
                                 .name = "mine",
                                 .spec_name = "mine.textproto",
                                 .spec_text = kSpec,
                                 .files = kFiles})
                    .ok());
  }
  ~History() { Kill(); }

  void Step() {
    switch (random_() % 10) {
      case 0:
      case 1:
        return Submit();
      case 2:
      case 3:
        return Search();
      case 4:
        return Confirm(/*disk_error=*/0);
      case 5:
        return Confirm(ENOSPC);
      case 6:
        return EndUnconfirmed(db::JobState::kDone);
      case 7:
        return EndUnconfirmed(db::JobState::kCancelled);
      case 8:
        return ConfirmAndBeKilled();
      default:
        Kill();
        Start();
    }
  }

  // The trials of all records that there are.
  std::multiset<int64_t> Published() {
    std::multiset<int64_t> trials;
    for (const auto& record : book_->snapshot()->Records("mine")) trials.insert(record->trial.id);
    for (const auto& record : book_->snapshot()->Records("alice/mine")) {
      trials.insert(record->trial.id);
    }
    return trials;
  }
  std::multiset<int64_t> Stored() {
    std::multiset<int64_t> trials;
    const std::vector<lookup::Record> records = store_->RecordsAfter(0).value();
    for (const lookup::Record& record : records) trials.insert(record.trial.id);
    return trials;
  }
  // Those of the newest winner of each key.
  std::multiset<int64_t> Current() const {
    std::multiset<int64_t> trials;
    for (const auto& [key, trial] : current_) trials.insert(trial);
    return trials;
  }
  const std::multiset<int64_t>& confirmed() const { return confirmed_; }

  void Kill() {
    book_.reset();
    devices_.reset();
    store_.reset();
  }
  void Start() {
    store_ = db::Store::Open(gpus_.Path("tune.db")).value();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
    book_ = RecordBook::Open(*store_, catalogue_, *devices_, solver_).value();
  }

 private:
  struct Running {
    db::SweepRow row;
    int64_t best = 0;  // of its search
  };

  void Submit() {
    const int64_t n = 1 + static_cast<int64_t>(random_() % 3);
    db::SweepRow row{.job = {.state = db::JobState::kRunning},
                     .kernel_hash = hash_,
                     .name_space = random_() % 3 == 0 ? "alice" : "",
                     .problem = {.dims = {{"n", n}}, .dtype = DType::kF32},
                     .device_name = kDevice,
                     .target = "sm_90a",
                     .strategy = "auto"};
    row.kernel_name = row.name_space.empty() ? "mine" : "alice/mine";
    running_.push_back({store_->AddSweep(row).value()});
  }
  TrialKey KeyOf(const db::SweepRow& row) const {
    return {.kernel_hash = hash_,
            .problem = row.problem,
            .device_name = row.device_name,
            .target = row.target};
  }
  int64_t Measure(const db::SweepRow& row, TrialPurpose purpose) {
    Trial trial{.sweep_id = row.id, .purpose = purpose, .outcome = Outcome::kOk};
    trial.config.entries = {{"THREADS", int64_t{1} + static_cast<int64_t>(random_() % 1024)}};
    trial.measurement.latency_ns_median = 100 + static_cast<double>(random_() % 1000);
    return store_->AppendTrial(trial, KeyOf(row)).value();
  }
  Running* Any() { return running_.empty() ? nullptr : &running_[random_() % running_.size()]; }
  void Forget(const Running* sweep) {
    const int64_t id = sweep->row.id;
    std::erase_if(running_, [id](const Running& one) { return one.row.id == id; });
  }
  void Search() {
    Running* const sweep = Any();
    if (sweep != nullptr) searched_ = sweep->best = Measure(sweep->row, TrialPurpose::kSearch);
  }
  // With a disk that fails while it is published, a job fails. Nothing of it is left then.
  void Confirm(int disk_error) {
    Running* const sweep = Any();
    if (sweep == nullptr) return;
    lookup::Record record{.key = KeyOf(sweep->row), .kernel_name = sweep->row.kernel_name};
    record.trial.id = Measure(sweep->row, TrialPurpose::kConfirm);
    record.trial = store_->GetTrial(record.trial.id).value();
    db::SweepRow done = sweep->row;
    done.best_trial_id = record.trial.id;
    done.job.state = db::JobState::kDone;
    disk_.write_error = disk_error;
    const absl::Status published = book_->Publish(record, &done);
    disk_.write_error = 0;
    EXPECT_EQ(published.ok(), disk_error == 0) << published;
    if (!published.ok()) return EndUnconfirmed(db::JobState::kFailed);
    if (random_() % 4 == 0) {
      EXPECT_TRUE(book_->Publish(record, &done).ok()) << "the same again";
    }
    confirmed_.insert(record.trial.id);
    current_[{done.name_space, done.problem.dims[0].second}] = record.trial.id;
    Forget(sweep);
  }
  // The best is of its own search, or was reused from another sweep's.
  void EndUnconfirmed(db::JobState state) {
    Running* const sweep = Any();
    if (sweep == nullptr) return;
    sweep->row.best_trial_id = sweep->best != 0 ? sweep->best : searched_;
    sweep->row.job.state = state;
    EXPECT_TRUE(store_->UpdateSweep(sweep->row).ok());
    Forget(sweep);
  }
  void ConfirmAndBeKilled() {
    if (Running* sweep = Any()) Measure(sweep->row, TrialPurpose::kConfirm);
    Kill();
    Start();
  }

  const std::map<std::string, std::string> kFiles = {{"k.cu", "text"}};
  std::mt19937 random_;
  db::FaultyDisk disk_;
  ScriptedGpus gpus_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Devices> devices_;
  Catalogue catalogue_;
  SpaceSolver solver_;
  std::unique_ptr<RecordBook> book_;
  std::string hash_;

  std::vector<Running> running_;
  int64_t searched_ = 0;  // the last trial of any search
  std::multiset<int64_t> confirmed_;
  std::map<std::pair<std::string, int64_t>, int64_t> current_;
};

TEST(PublishedTest, TheRecordsAreTheConfirmedWinnersWhateverHappens) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    History history(seed);
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", step ", step));
      history.Step();
      ASSERT_EQ(history.Stored(), history.confirmed());
      ASSERT_EQ(history.Published(), history.Current());
    }
    for (int restart = 0; restart < 2; ++restart) {
      history.Kill();
      history.Start();
      ASSERT_EQ(history.Stored(), history.confirmed()) << "seed " << seed;
      ASSERT_EQ(history.Published(), history.Current()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tune::server
