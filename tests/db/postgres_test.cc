// SPDX-License-Identifier: Apache-2.0
// The store in PostgreSQL beside what every store does: lost connections, addresses, words.
#include <thread>
#include <vector>

#include "db/postgres_dialect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/rows_to_store.h"

namespace tune::db {
namespace {

using testing::HasSubstr;
using testing::Not;

class PostgresTest : public StoreTest {
 protected:
  void SetUp() override {
    if (PostgresForTests() == nullptr) GTEST_SKIP() << "no server; see tests/postgres.py";
  }
  // Ends the store's connections, as a restart of the server does.
  void EndConnections() {
    EXPECT_EQ(RunSql(path(),
                     "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE application_name = 'tunectl' AND pid <> pg_backend_pid()"),
              "");
  }
};

TEST_F(PostgresTest, CallsGoOnAfterTheirConnectionsWereEnded) {
  Store& store = OpenWithSweep();
  for (int i = 0; i < 3; ++i) {
    EndConnections();
    const absl::StatusOr<int64_t> id = store.AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k1"));
    EXPECT_TRUE(id.ok()) << id.status();
    EndConnections();
    EXPECT_EQ(store.TrialsOfSweep(sweep_.id)->size(), static_cast<size_t>(i) + 1);
  }
}

TEST_F(PostgresTest, WritesAreStoredOnceWhileConnectionsEnd) {
  Store& store = OpenWithSweep();
  std::atomic<bool> done = false;
  std::thread enemy([&] {
    while (!done) {
      EndConnections();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  std::vector<int64_t> ids;
  for (int i = 0; i < 200; ++i) {
    const absl::StatusOr<int64_t> id = store.AppendTrial(MakeTrial(sweep_.id), MakeTrialKey("k1"));
    if (id.ok()) ids.push_back(*id);
  }
  done = true;
  enemy.join();
  EXPECT_GT(ids.size(), 150u);
  EXPECT_EQ(store.TrialIdsOf(sweep_.id, 0, 1000).value(), ids)
      << "what was refused is not stored, and nothing is stored twice";
}

TEST_F(PostgresTest, ANewerProgramsSchemaIsRefused) {
  Reopen();
  store_.reset();
  ASSERT_EQ(RunSql(path(), "UPDATE schema_version SET version = version + 1"), "");
  const absl::Status status = Store::Open(path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("use a newer program"));
}

TEST(PostgresUrlTest, AnUnreachableServerIsNamedWithoutItsPassword) {
  const absl::Status status =
      Store::Open("postgresql://me:secret@127.0.0.1:1/tune?connect_timeout=2").status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

TEST(PostgresUrlTest, PeopleSeeNeitherUserNorOptions) {
  EXPECT_EQ(WithoutSecrets("postgresql://a:b@db1:5432/tune?sslmode=require"),
            "postgresql://db1:5432/tune");
  EXPECT_EQ(WithoutSecrets("postgresql:///tune?host=/run/x"), "postgresql:///tune");
}

TEST(PostgresDialectTest, ParametersAreNumberedAndQuotedTextStays) {
  EXPECT_EQ(ToPostgres("SELECT '?' FROM a WHERE b = ? AND c = ?"),
            "SELECT '?' FROM a WHERE b = $1 AND c = $2");
  EXPECT_EQ(ToPostgres("a = ?2 OR b = ?1"), "a = $2 OR b = $1");
  EXPECT_EQ(ToPostgres("length(CAST(a.b AS BLOB)) + length(c)"), "octet_length((a.b)) + length(c)");
}

}  // namespace
}  // namespace tune::db
