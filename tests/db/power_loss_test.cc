// SPDX-License-Identifier: Apache-2.0
// The store at many moments at which the power fails or the disk begins to. TUNE_FAULT_POINTS says
// at how many; ./check all takes 500.
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"
#include "tests/db/faulty_disk.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using Change = FaultyDisk::Change;

constexpr size_t kSectorBytes = 512;

int64_t PointCount() {
  int64_t count = 60;
  const char* text = std::getenv("TUNE_FAULT_POINTS");
  EXPECT_TRUE(text == nullptr || absl::SimpleAtoi(text, &count));
  return count;
}

// The part of the changes without a sync that survives when the power fails.
enum class Unsynced { kNone, kSome, kTorn };

// The files of a disk whose power fails.
class Disk {
 public:
  void Take(const Change& change) {
    std::vector<Change>& waiting = waiting_[change.file];
    switch (change.kind) {
      case Change::Kind::kSync:
        for (const Change& one : waiting) Apply(one);
        waiting.clear();
        return;
      case Change::Kind::kDelete:
        waiting.clear();
        files_.erase(change.file);
        return;
      default:
        waiting.push_back(change);
    }
  }

  void LosePower(Unsynced unsynced, std::mt19937& random) {
    if (unsynced == Unsynced::kNone) return;
    for (auto& [file, waiting] : waiting_) {
      for (Change& change : waiting) {
        if (random() % 2 == 0) continue;
        const size_t sectors = (change.bytes.size() + kSectorBytes - 1) / kSectorBytes;
        if (unsynced == Unsynced::kTorn && sectors > 1) {
          change.bytes.resize(std::min(change.bytes.size(), random() % sectors * kSectorBytes));
        }
        Apply(change);
      }
    }
  }

  void WriteTo(const std::string& folder) const {
    for (const auto& [file, bytes] : files_) {
      std::ofstream(std::filesystem::path(folder) / std::filesystem::path(file).filename(),
                    std::ios::binary)
          << bytes;
    }
  }

 private:
  void Apply(const Change& change) {
    std::string& bytes = files_[change.file];
    const auto at = static_cast<size_t>(change.at);
    if (change.kind == Change::Kind::kTruncate) {
      bytes.resize(at);
    } else {
      if (bytes.size() < at + change.bytes.size()) bytes.resize(at + change.bytes.size());
      bytes.replace(at, change.bytes.size(), change.bytes);
    }
  }

  std::map<std::string, std::string> files_;            // what is synced, by path
  std::map<std::string, std::vector<Change>> waiting_;  // what is not
};

class PowerLossTest : public StoreTest {
 protected:
  ~PowerLossTest() override { store_.reset(); }  // before the disk

  std::set<int64_t> Stored(Store& store) {
    std::set<int64_t> ids;
    const absl::StatusOr<std::vector<Trial>> trials = store.TrialsOfSweep(sweep_.id);
    EXPECT_TRUE(trials.ok()) << trials.status();
    if (!trials.ok()) return ids;
    for (const Trial& trial : *trials) ids.insert(trial.id);
    return ids;
  }

  // An acknowledged trial, with the number of changes that the disk had got by then.
  struct Acknowledged {
    size_t changes;
    int64_t id;
  };
  std::vector<Acknowledged> AppendSome() {
    OpenWithSweep();
    std::vector<Acknowledged> acknowledged;
    for (int i = 0; i < 80; ++i) {
      const int64_t id =
          store_->AppendTrial(MakeConfirmed(sweep_.id, i), MakeTrialKey("k1")).value();
      acknowledged.push_back({disk_.change_count(), id});
      if (i % 16 == 15) Reopen();  // with a checkpoint
    }
    return acknowledged;
  }

  FaultyDisk disk_;
};

TEST_F(PowerLossTest, WhatWasAcknowledgedIsThereAfterALossOfPower) {
  disk_.Remember();
  const std::vector<Acknowledged> acknowledged = AppendSome();
  const std::vector<Change> changes = disk_.changes();
  store_.reset();
  ASSERT_GT(changes.size(), 500u);
  std::mt19937 random(1);
  const int64_t points = PointCount();
  for (int64_t point = 0; point < points; ++point) {
    const size_t end = changes.size() * static_cast<size_t>(point) / static_cast<size_t>(points);
    Disk disk;
    for (size_t i = 0; i < end; ++i) disk.Take(changes[i]);
    disk.LosePower(static_cast<Unsynced>(point % 3), random);
    const std::string folder = absl::StrCat(folder_, "/", point);
    std::filesystem::create_directory(folder);
    disk.WriteTo(folder);
    SCOPED_TRACE(absl::StrCat("after change ", end, " of ", changes.size()));
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(absl::StrCat(folder, "/tune.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->CheckAll([] { return false; }).ok());
    const std::set<int64_t> stored = Stored(**store);
    for (const Acknowledged& trial : acknowledged) {
      EXPECT_TRUE(trial.changes > end || stored.contains(trial.id)) << trial.id;
    }
    store->reset();
    std::filesystem::remove_all(folder);
  }
}

// Writes and syncs begin to fail at any of them, for some or for good until the store is opened
// again.
TEST_F(PowerLossTest, NothingAcknowledgedIsLostWhereTheDiskBeginsToFail) {
  const int64_t points = PointCount();
  OpenWithSweep();
  std::set<int64_t> acknowledged;
  for (int64_t point = 0; point < points; ++point) {
    const int error = point % 2 == 0 ? ENOSPC : EIO;
    SCOPED_TRACE(absl::StrCat("point ", point, ", error ", error));
    disk_.FailAfter(point % 40, point % 3 == 0 ? 1'000'000 : 1 + point % 5, error);
    for (int i = 0; i < 8; ++i) {
      const auto id = store_->AppendTrial(MakeTrial(sweep_.id, i), MakeTrialKey("k1"));
      if (id.ok()) acknowledged.insert(*id);
    }
    disk_.FailAfter(0, 0, 0);
    if (point % 4 == 3) Reopen();
    const auto id = store_->AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k1"));
    ASSERT_TRUE(id.ok()) << id.status();
    acknowledged.insert(*id);
    const std::set<int64_t> stored = Stored(*store_);
    ASSERT_TRUE(
        std::includes(stored.begin(), stored.end(), acknowledged.begin(), acknowledged.end()));
  }
  EXPECT_TRUE(Reopen().CheckAll([] { return false; }).ok());
}

}  // namespace
}  // namespace tune::db
