// SPDX-License-Identifier: Apache-2.0
#include "lookup/index.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lookup/reason.h"
#include "lookup/record_file.h"

namespace tune::lookup {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kH200[] = "NVIDIA H200";
constexpr char kH100[] = "NVIDIA H100";

// attention: seq near, rows bucketed, causal exact, batch ignored.
KernelPolicy Policy() {
  return {.kernel_name = "attention",
          .kernel_hash = "hash-of-today-1",
          .dims = {{"seq", DimMatch::kNearest},
                   {"rows", DimMatch::kBucketed},
                   {"causal", DimMatch::kExact},
                   {"batch", DimMatch::kIgnored}}};
}

Problem At(int64_t seq, int64_t rows, int64_t causal = 1, int64_t batch = 4) {
  return {.dims = {{"seq", seq}, {"rows", rows}, {"causal", causal}, {"batch", batch}},
          .dtype = DType::kBF16};
}

Record MakeRecord(int64_t id, const Problem& problem) {
  Record record{.id = id, .kernel_name = "attention"};
  record.key = {.kernel_hash = "hash-of-today-1",
                .problem = problem,
                .device_name = kH200,
                .target = "sm_90a"};
  record.trial.config.entries = {{"BLOCK", id}};
  return record;
}

Query Ask(const Problem& problem) {
  return {.kernel_name = "attention",
          .kernel_hash = "hash-of-today-1",
          .problem = problem,
          .device_name = kH200,
          .target = "sm_90a"};
}

std::shared_ptr<const Index> IndexOf(std::vector<Record> records) {
  return Index::Build(std::move(records), {Policy()});
}

int64_t IdOf(const Answer& answer) { return answer.record == nullptr ? 0 : answer.record->id; }

TEST(LookupIndexTest, SameProblemIsExact) {
  auto index =
      IndexOf({MakeRecord(1, At(4096, 8)), MakeRecord(2, At(2048, 8)), MakeRecord(3, At(4096, 7))});
  Answer answer = index->Lookup(Ask(At(4096, 8)));
  EXPECT_EQ(answer.match, Match::kExact);
  EXPECT_EQ(IdOf(answer), 1);
  ASSERT_NE(answer.config, nullptr);
  EXPECT_EQ(ToText(*answer.config), "BLOCK=1");
  EXPECT_EQ(answer.reason, "exact: this problem was tuned on NVIDIA H200");
  EXPECT_EQ(index->snapshot_id(), 3);
}

TEST(LookupIndexTest, AnIgnoredDimIsNamedAndDoesNotMatter) {
  Answer answer = IndexOf({MakeRecord(1, At(4096, 8, 1, 4))})->Lookup(Ask(At(4096, 8, 1, 64)));
  EXPECT_EQ(answer.match, Match::kExact);
  EXPECT_THAT(answer.reason, HasSubstr("batch (64, the record's 4) does not matter"));
}

TEST(LookupIndexTest, BucketedAnswersWithinAPowerOfTwo) {
  auto index = IndexOf({MakeRecord(1, At(4096, 4096)), MakeRecord(2, At(4096, 2048))});
  Answer answer = index->Lookup(Ask(At(4096, 2049)));
  EXPECT_EQ(answer.match, Match::kBucketed);
  EXPECT_EQ(IdOf(answer), 1) << "2048 is nearer but in another bucket";
  EXPECT_EQ(answer.reason,
            "bucketed: on NVIDIA H200: rows is 2049 and the record's 4096 (both in 2049 to 4096)");

  answer = index->Lookup(Ask(At(4096, 4097)));
  EXPECT_EQ(answer.match, Match::kNearest) << "beyond the bucket";
  answer = index->Lookup(Ask(At(4000, 3000)));
  EXPECT_EQ(answer.match, Match::kNearest) << "another dim differs too";
}

TEST(LookupIndexTest, NearestIsByRatioOnEachAxis) {
  auto index = IndexOf(
      {MakeRecord(1, At(1024, 8)), MakeRecord(2, At(4096, 8)), MakeRecord(3, At(2048, 64))});
  Answer answer = index->Lookup(Ask(At(3000, 16)));
  EXPECT_EQ(answer.match, Match::kNearest);
  EXPECT_EQ(IdOf(answer), 2);
  EXPECT_EQ(answer.reason,
            "nearest on NVIDIA H200: seq is 3000 and the record's 4096 (a factor of 1.37), rows is "
            "16 and the record's 8 (a factor of 2), a factor of 2.73 in all");
  answer = index->Lookup(Ask(At(4096 * 2341, 8)));
  EXPECT_EQ(answer.reason,
            "nearest on NVIDIA H200: seq is 9588736 and the record's 4096 (a factor of 2341)");
  // 4096 x 1 is far from 64 x 64, though their volumes are equal.
  index = IndexOf({MakeRecord(1, At(4096, 1)), MakeRecord(2, At(32, 32))});
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(64, 64)))), 2);
}

TEST(LookupIndexTest, AnExactDimNeverAnswersForAnotherValue) {
  auto index = IndexOf({MakeRecord(1, At(4096, 8, 0))});
  Answer answer = index->Lookup(Ask(At(4096, 8, 1)));
  EXPECT_EQ(answer.match, Match::kNone);
  EXPECT_EQ(answer.record, nullptr);
  EXPECT_EQ(answer.config, nullptr);
  EXPECT_THAT(answer.reason,
              HasSubstr("no record of attention in bf16 on NVIDIA H200 with causal=1"));
}

TEST(LookupIndexTest, AnotherDeviceOfTheTargetAnswersForTheSameProblemOnly) {
  Record elsewhere = MakeRecord(1, At(4096, 8));
  elsewhere.key.device_name = kH100;
  auto index = IndexOf({elsewhere});
  Answer answer = index->Lookup(Ask(At(4096, 8)));
  EXPECT_EQ(answer.match, Match::kOtherDevice);
  EXPECT_EQ(answer.reason,
            "other device: asked for NVIDIA H200, tuned on NVIDIA H100 (both sm_90a)");
  EXPECT_EQ(index->Lookup(Ask(At(4096, 5))).match, Match::kOtherDevice) << "same bucket";
  answer = index->Lookup(Ask(At(8192, 8)));
  EXPECT_EQ(answer.match, Match::kNone);
  EXPECT_THAT(answer.reason, HasSubstr("nor of this problem on another device"));

  index = IndexOf({elsewhere, MakeRecord(2, At(64, 8))});
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(4096, 8)))), 2) << "near on the device comes first";
}

TEST(LookupIndexTest, AnotherSourceIsALastResortAndFlagged) {
  Record old = MakeRecord(5, At(4096, 8));
  old.key.kernel_hash = "hash-of-last-week";
  auto index = IndexOf({old, MakeRecord(2, At(2048, 8))});
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(4096, 8)))), 2) << "its own source first";

  index = IndexOf({old});
  Answer answer = index->Lookup(Ask(At(4096, 8)));
  EXPECT_EQ(answer.match, Match::kNearest);
  EXPECT_EQ(answer.reason,
            "nearest on NVIDIA H200: the same problem; the kernel's source differs: tuned "
            "hash-of-last, asked for hash-of-toda");
  Query unnamed = Ask(At(4096, 8));
  unnamed.kernel_hash = "";
  EXPECT_EQ(index->Lookup(unnamed).match, Match::kNearest) << "the policy names today's";

  auto without_policy = Index::Build({old}, {});
  EXPECT_EQ(without_policy->Lookup(unnamed).match, Match::kExact);
}

TEST(LookupIndexTest, AnotherSourceOnAnotherDeviceIsFoundToo) {
  Record old = MakeRecord(5, At(4096, 8));
  old.key.kernel_hash = "hash-of-last-week";
  old.key.device_name = kH100;
  Answer answer = IndexOf({old, MakeRecord(1, At(4096, 8, 0))})->Lookup(Ask(At(4096, 8)));
  EXPECT_EQ(answer.match, Match::kOtherDevice);
  EXPECT_THAT(answer.reason, AllOf(StartsWith("other device"), HasSubstr("source differs")));
}

// Every field of a key: changing it alone must change the answer in the way stated.
TEST(LookupIndexTest, EveryFieldOfAKeyCounts) {
  const struct {
    const char* name;
    std::function<void(Query&)> change;
    Match match;
    const char* reason;
  } cases[] = {
      {"nothing", [](Query&) {}, Match::kExact, "exact"},
      {"kernel", [](Query& q) { q.kernel_name = "rope"; }, Match::kNone, "no record of rope"},
      {"hash", [](Query& q) { q.kernel_hash = "another"; }, Match::kNearest, "source differs"},
      {"no hash", [](Query& q) { q.kernel_hash = ""; }, Match::kExact, "exact"},
      {"near dim", [](Query& q) { q.problem.dims[0].second = 4095; }, Match::kNearest,
       "seq is 4095"},
      {"bucketed dim", [](Query& q) { q.problem.dims[1].second = 7; }, Match::kBucketed,
       "rows is 7"},
      {"exact dim", [](Query& q) { q.problem.dims[2].second = 0; }, Match::kNone, "causal=0"},
      {"ignored dim", [](Query& q) { q.problem.dims[3].second = 9; }, Match::kExact, "batch (9"},
      {"dim's name", [](Query& q) { q.problem.dims[0].first = "len"; }, Match::kNone, "no record"},
      {"a dim more", [](Query& q) { q.problem.dims.emplace_back("x", 1); }, Match::kNone,
       "no record"},
      {"order of dims", [](Query& q) { std::swap(q.problem.dims[0], q.problem.dims[2]); },
       Match::kExact, "exact"},
      {"dtype", [](Query& q) { q.problem.dtype = DType::kF16; }, Match::kNone,
       "no record of attention in f16, only in bf16"},
      {"device", [](Query& q) { q.device_name = kH100; }, Match::kOtherDevice,
       "asked for NVIDIA H100, tuned on NVIDIA H200"},
      {"target", [](Query& q) { q.target = "sm_100a"; }, Match::kNone,
       "no record of attention for sm_100a, only for sm_90a"},
  };
  auto index = IndexOf({MakeRecord(1, At(4096, 8))});
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    Query query = Ask(At(4096, 8));
    test.change(query);
    Answer answer = index->Lookup(query);
    EXPECT_EQ(answer.match, test.match);
    EXPECT_THAT(answer.reason, HasSubstr(test.reason));
    EXPECT_EQ(answer.record == nullptr, test.match == Match::kNone);
  }
}

// Any fields changed together: the answer is that of the worst of them.
TEST(LookupIndexTest, TheMatchFollowsFromTheChangedFields) {
  std::mt19937 random(11);
  const auto chance = [&] { return random() % 3 == 0; };
  std::map<Match, int> seen;
  for (int i = 0; i < 3000; ++i) {
    const Problem tuned = At(1 + random() % 5000, 1 + random() % 300, random() % 2, random() % 9);
    Query query = Ask(tuned);
    Match promised = Match::kExact;
    if (chance()) query.problem.dims[3].second += 1 + random() % 9;  // ignored
    if (chance()) {
      int64_t& rows = query.problem.dims[1].second;
      const Bucket bucket = BucketOf(rows);
      const int64_t other = 1 + random() % 300;
      if (other != rows) {
        const bool inside = other >= bucket.low && other <= bucket.high;
        promised = std::max(promised, inside ? Match::kBucketed : Match::kNearest);
      }
      rows = other;
    }
    if (chance()) {
      query.problem.dims[0].second += 1 + random() % 5000;
      promised = Match::kNearest;
    }
    const bool hash = chance();
    if (hash) query.kernel_hash = "hash-of-last-week";
    if (chance()) {
      query.device_name = kH100;
      // Another device answers for the same problem or bucket, and for no other.
      promised = promised <= Match::kBucketed ? Match::kOtherDevice : Match::kNone;
    } else if (hash) {
      promised = Match::kNearest;
    }
    if (random() % 8 == 0) {
      query.problem.dims[2].second = 1 - query.problem.dims[2].second;
      promised = Match::kNone;
    }
    if (random() % 8 == 0) {
      query.problem.dtype = DType::kF16;
      promised = Match::kNone;
    }
    if (random() % 8 == 0) {
      query.target = "sm_100a";
      promised = Match::kNone;
    }
    const auto index = IndexOf({MakeRecord(1, tuned)});
    const Answer answer = index->Lookup(query);
    ASSERT_EQ(answer.match, promised) << i << ": " << answer.reason;
    if (hash && answer.record != nullptr) {
      EXPECT_THAT(answer.reason, HasSubstr("source differs"));
    }
    ++seen[promised];
  }
  for (const Match match :
       {Match::kExact, Match::kBucketed, Match::kNearest, Match::kOtherDevice, Match::kNone}) {
    EXPECT_GT(seen[match], 20) << static_cast<int>(match);
  }
}

TEST(LookupIndexTest, TiesAreBrokenTheSameWayWhateverTheOrder) {
  Record warm = MakeRecord(9, At(4096, 8));
  warm.key.cache_mode = CacheMode::kWarm;
  std::vector<Record> records = {MakeRecord(3, At(1024, 8)), MakeRecord(4, At(256, 8)), warm,
                                 MakeRecord(5, At(4096, 8, 1, 1)),
                                 MakeRecord(6, At(4096, 8, 1, 2))};
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(records.begin(), records.end(), random);
    auto index = IndexOf(records);
    EXPECT_EQ(IdOf(index->Lookup(Ask(At(512, 8)))), 4) << "both a factor of 2 away: the newer";
    EXPECT_EQ(IdOf(index->Lookup(Ask(At(4096, 8)))), 6) << "cold before warm, then the newer";
  }
}

// Among few enough keys that newer records replace older ones. Devices and sources come later.
Record RandomRecord(int64_t id, std::mt19937& random) {
  Record record =
      MakeRecord(id, At(64 << random() % 6, 1 + random() % 12, random() % 2, random() % 3));
  if (id > 50 && random() % 4 == 0) record.key.device_name = kH100;
  if (id > 100 && random() % 4 == 0) record.key.kernel_hash = "hash-of-last-week";
  if (random() % 4 == 0) record.key.cache_mode = CacheMode::kWarm;
  return record;
}

void Replace(const Record& record, std::vector<Record>& current) {
  std::erase_if(current, [&](const Record& old) {
    return old.key.problem == record.key.problem && old.key.kernel_hash == record.key.kernel_hash &&
           old.key.device_name == record.key.device_name &&
           old.key.cache_mode == record.key.cache_mode;
  });
  current.push_back(record);
}

void ExpectSameAnswers(const Index& index, const Index& other, std::mt19937& random) {
  for (int i = 0; i < 200; ++i) {
    Query query = Ask(At(1 + random() % 4096, 1 + random() % 16, random() % 2));
    if (random() % 4 == 0) query.device_name = kH100;
    if (random() % 4 == 0) query.kernel_hash = "hash-of-last-week";
    const int64_t refused = 2 + static_cast<int64_t>(random() % 6);
    const auto takes = [&](const Record& row) { return row.id % refused != 0; };
    EXPECT_EQ(IdOf(index.Lookup(query)), IdOf(other.Lookup(query)));
    EXPECT_EQ(index.Lookup(query, takes).reason, other.Lookup(query, takes).reason);
    EXPECT_EQ(IdOf(index.Lookup(query, takes)), IdOf(other.Lookup(query, takes)));
  }
}

// Published one after the other, as a daemon does, or read from the store at its next start.
TEST(LookupIndexTest, APublishGivesTheSameAnswersAsANewIndex) {
  std::mt19937 random(5);
  std::vector<Record> current;
  auto index = Index::Build({}, {Policy()});
  for (int64_t id = 1; id <= 300; ++id) {
    const Record record = RandomRecord(id, random);
    Replace(record, current);
    index = index->With(record, Policy());
    EXPECT_EQ(index->snapshot_id(), id);
    ASSERT_EQ(index->Records().size(), current.size());
    EXPECT_EQ(index->Records()[0]->id, id);
    SCOPED_TRACE(id);
    if (id % 20 == 0) ExpectSameAnswers(*index, *IndexOf(current), random);
  }
}

// An index in a file, of records that stay here.
class KeptIndexTest : public testing::Test {
 protected:
  KeptIndexTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "index_XXXXXX").string();
    folder_ = mkdtemp(folder.data());
  }
  ~KeptIndexTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/records.index"; }
  RecordCodec codec() {
    return {.encode =
                [this](const Record& record) {
                  records_.push_back(record);
                  return absl::StrCat(records_.size() - 1);
                },
            .decode = [this](absl::string_view text) -> absl::StatusOr<Record> {
              size_t place = 0;
              if (absl::SimpleAtoi(text, &place) && place < records_.size()) return records_[place];
              return absl::DataLossError("no such record");
            }};
  }
  absl::Status Save(const Index& index) { return index.Save(path(), "a note", codec(), {}); }
  absl::StatusOr<std::shared_ptr<const Index>> Open(const KernelPolicy& policy = Policy()) {
    auto file = RecordFile::Open(path(), codec());
    if (!file.ok()) return file.status();
    return Index::Open(*file, {policy});
  }
  std::shared_ptr<const Index> Kept(const Index& index) {
    EXPECT_TRUE(Save(index).ok());
    return Open().value();
  }

 private:
  std::string folder_;
  std::vector<Record> records_;
};

TEST_F(KeptIndexTest, GivesTheSameAnswersAsANewIndex) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Record> current;
    std::vector<RecordPtr> batch;
    auto index = Index::Build({}, {Policy()});
    // One after the other, or those of a while at once; written at another moment for each seed.
    const bool at_once = seed % 2 == 0;
    for (int64_t id = 1; id <= 240; ++id) {
      const Record record = RandomRecord(id, random);
      Replace(record, current);
      batch.push_back(std::make_shared<const Record>(record));
      if (at_once && id % 10 == 0) index = index->With(std::exchange(batch, {}), {Policy()});
      if (!at_once) index = index->With(record, Policy());
      if (id % (30 + 10 * seed) == 0) {
        index = Kept(*index);
        EXPECT_EQ(index->unsaved_count(), 0u);
        EXPECT_EQ(index->record_count(), current.size());
      }
      if (id % 20 != 0) continue;
      EXPECT_EQ(index->snapshot_id(), id);
      ASSERT_EQ(index->Records().size(), current.size());
      EXPECT_EQ(index->Records("attention").front()->id, id);
      ExpectSameAnswers(*index, *IndexOf(current), random);
    }
  }
}

TEST_F(KeptIndexTest, ListsRecordsNewerThanTheFile) {
  auto index = Kept(*IndexOf({MakeRecord(1, At(4096, 8)), MakeRecord(2, At(64, 8))}));
  index =
      index->With(MakeRecord(3, At(128, 8)), Policy())->With(MakeRecord(4, At(256, 8)), Policy());
  EXPECT_EQ(index->unsaved_count(), 2u);
  ASSERT_EQ(index->UnsavedSince(3).size(), 1u);
  EXPECT_EQ(index->UnsavedSince(3)[0]->id, 4);
  EXPECT_EQ(Index::NoteOf(*RecordFile::Open(path(), codec()).value()).value(), "a note");
  EXPECT_TRUE(index->Records("rope").empty());
}

TEST_F(KeptIndexTest, AnIndexFileAnswersByThePolicyItIsOpenedWith) {
  ASSERT_TRUE(Save(*IndexOf({MakeRecord(1, At(4096, 8, 0))})).ok());
  KernelPolicy later = Policy();
  later.dims["causal"] = DimMatch::kIgnored;
  EXPECT_EQ(Open().value()->Lookup(Ask(At(4096, 8, 1))).match, Match::kNone);
  EXPECT_EQ(Open(later).value()->Lookup(Ask(At(4096, 8, 1))).match, Match::kExact);
  later = Policy();
  later.kernel_hash = "hash-of-tomorrow";
  Query unnamed = Ask(At(4096, 8, 0));
  unnamed.kernel_hash = "";
  EXPECT_EQ(Open().value()->Lookup(unnamed).match, Match::kExact);
  EXPECT_EQ(Open(later).value()->Lookup(unnamed).match, Match::kNearest) << "of another source";
}

TEST_F(KeptIndexTest, ACancelledSaveLeavesTheFileUnchanged) {
  ASSERT_TRUE(Save(*IndexOf({MakeRecord(1, At(4096, 8))})).ok());
  const auto ended = [] { return true; };
  const absl::Status status =
      IndexOf({MakeRecord(2, At(64, 8))})->Save(path(), "another note", codec(), ended);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(Open().value()->snapshot_id(), 1);
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
}

TEST_F(KeptIndexTest, ADamagedFileIsRefusedOrAnswersLess) {
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
  std::mt19937 random(3);
  std::vector<Record> records;
  for (int64_t id = 1; id <= 60; ++id) Replace(RandomRecord(id, random), records);
  const auto whole = IndexOf(records);
  ASSERT_TRUE(Save(*whole).ok());
  std::ifstream file(path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto spoil = [&](const std::string& spoiled) {
    // A new file: what is mapped must not change.
    std::filesystem::remove(path());
    std::ofstream(path(), std::ios::binary) << spoiled;
    return Open();
  };
  EXPECT_TRUE(absl::IsDataLoss(spoil("").status()));
  EXPECT_TRUE(absl::IsDataLoss(spoil(bytes.substr(0, bytes.size() - 1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(spoil(std::string(bytes.size(), 'x')).status()));
  for (int i = 0; i < 2000; ++i) {
    std::string spoiled = bytes;
    spoiled[random() % bytes.size()] = static_cast<char>(random());
    const auto index = spoil(spoiled);
    if (!index.ok()) continue;
    (*index)->Records();
    (*index)->Lookup(Ask(At(1 + random() % 4096, 8)));
    (*index)->Lookup(Ask(At(64, 8)), [](const Record&) { return false; });
  }
}

TEST(LookupIndexTest, AnotherPolicyHoldsForEarlierRecordsToo) {
  KernelPolicy later = Policy();
  later.kernel_hash = "hash-of-tomorrow";
  Record tomorrow = MakeRecord(2, At(64, 8));
  tomorrow.key.kernel_hash = "hash-of-tomorrow";
  const auto before = IndexOf({MakeRecord(1, At(4096, 8))});
  const auto index = before->With(tomorrow, later);
  Query unnamed = Ask(At(4096, 8));
  unnamed.kernel_hash = "";
  EXPECT_EQ(IdOf(index->Lookup(unnamed)), 2) << "its own source first";
  EXPECT_EQ(IdOf(before->Lookup(unnamed)), 1) << "an index never changes";
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(4096, 8)))), 1);
}

TEST(LookupIndexTest, AWarmRecordIsFlagged) {
  Record warm = MakeRecord(9, At(4096, 8));
  warm.key.cache_mode = CacheMode::kWarm;
  EXPECT_THAT(IndexOf({warm})->Lookup(Ask(At(4096, 8))).reason,
              HasSubstr("measured with warm caches"));
}

TEST(LookupIndexTest, ARefusedConfigGivesWayToTheNextNearest) {
  auto index =
      IndexOf({MakeRecord(1, At(4096, 8)), MakeRecord(2, At(4000, 8)), MakeRecord(3, At(1024, 8))});
  auto except = [](std::set<int64_t> refused) {
    return [refused](const Record& record) { return refused.count(record.id) == 0; };
  };
  Answer answer = index->Lookup(Ask(At(4096, 8)), except({1}));
  EXPECT_EQ(answer.match, Match::kNearest);
  EXPECT_EQ(IdOf(answer), 2);
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(4096, 8)), except({1, 2}))), 3);
  answer = index->Lookup(Ask(At(4096, 8)), except({1, 2, 3}));
  EXPECT_EQ(answer.match, Match::kNone);
  EXPECT_THAT(answer.reason, HasSubstr("not valid for this problem"));
}

TEST(LookupIndexTest, AsksAboutAFewRecordsOnly) {
  std::vector<Record> records;
  for (int64_t i = 1; i <= 5000; ++i) {
    records.push_back(MakeRecord(i, At(i, 8)));
    if (i % 2 == 0) records.back().key.kernel_hash = "another";
    if (i % 3 == 0) records.back().key.device_name = kH100;
  }
  auto index = IndexOf(std::move(records));
  int asked = 0;
  index->Lookup(Ask(At(2500, 8)), [&](const Record&) {
    ++asked;
    return false;
  });
  EXPECT_GT(asked, 16);
  EXPECT_LT(asked, 200);
}

TEST(LookupIndexTest, WithoutRecordsEverythingIsAMiss) {
  auto index = IndexOf({});
  EXPECT_EQ(index->snapshot_id(), 0);
  Answer answer = index->Lookup(Ask(At(4096, 8)));
  EXPECT_EQ(answer.match, Match::kNone);
  EXPECT_EQ(answer.reason, "no record of attention");
}

TEST(LookupIndexTest, AKernelWithoutDimsHasOneAnswer) {
  Record record = MakeRecord(1, {.dims = {}, .dtype = DType::kF32});
  auto index = IndexOf({record});
  EXPECT_EQ(index->Lookup(Ask({.dims = {}, .dtype = DType::kF32})).match, Match::kExact);
}

TEST(LookupIndexTest, ExtremeValuesHaveTheirPlaces) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  auto index = IndexOf({MakeRecord(1, At(0, 0)), MakeRecord(2, At(1, 1)),
                        MakeRecord(3, At(kMax, kMax)), MakeRecord(4, At(int64_t{1} << 40, 8))});
  EXPECT_EQ(index->Lookup(Ask(At(0, 0))).match, Match::kExact);
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(0, 0)))), 1);
  EXPECT_EQ(index->Lookup(Ask(At(0, 1))).match, Match::kNearest) << "0 and 1 are different";
  EXPECT_EQ(IdOf(index->Lookup(Ask(At(kMax, kMax)))), 3);
  EXPECT_EQ(index->Lookup(Ask(At((int64_t{1} << 40) + 1, 8))).match, Match::kNearest);
}

TEST(BucketTest, EndsAtPowersOfTwo) {
  for (int64_t value : {1025, 1500, 2048}) {
    EXPECT_EQ(BucketOf(value).low, 1025) << value;
    EXPECT_EQ(BucketOf(value).high, 2048) << value;
  }
  EXPECT_EQ(BucketOf(2).low, 2);
  EXPECT_EQ(BucketOf(1).high, 1);
  EXPECT_EQ(BucketOf(0).high, 0);
  EXPECT_EQ(BucketOf(-5).low, -5);
}

}  // namespace
}  // namespace tune::lookup
