// SPDX-License-Identifier: Apache-2.0
// What memory and the store say of tokens when the disk fails between the two.
#include "server/access/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "tests/db/faulty_disk.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class TokensTest : public testing::Test {
 protected:
  TokensTest() { Open(); }
  // As a daemon that is started again finds them.
  void Open() {
    tokens_ = nullptr;
    store_ = nullptr;
    store_ = db::Store::Open(dir_.path() + "/tune.db").value();
    tokens_ = Tokens::Open(*store_, [](std::function<void()> work) { work(); }).value();
  }
  NewToken Make(const std::string& name) {
    return tokens_->Create(name, db::Role::kSubmitter, absl::ZeroDuration(), "root").value();
  }
  bool IsValid(const NewToken& token) const { return tokens_->Find(token.secret).ok(); }

  db::FaultyDisk disk_;
  const TempDir dir_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Tokens> tokens_;
};

TEST_F(TokensTest, TokensThatEndedLongAgoAreRemoved) {
  const int64_t now = absl::ToUnixMillis(absl::Now());
  const int64_t long_ago = absl::ToUnixMillis(absl::Now() - Tokens::kEndedKept - absl::Hours(1));
  const auto add = [&](const std::string& name, int64_t expires, int64_t revoked) {
    const db::TokenRow row{.name = name,
                           .role = db::Role::kReader,
                           .hash = name,
                           .created_unix_ms = 1,
                           .expires_unix_ms = expires,
                           .revoked_unix_ms = revoked};
    ASSERT_TRUE(store_->AddToken(row).ok());
  };
  add("lives", 0, 0);
  add("expired", long_ago, 0);
  add("just expired", now - 1000, 0);
  add("revoked", 0, long_ago);
  add("just revoked", 0, now - 1000);
  Open();
  disk_.write_error = ENOSPC;
  tokens_->RemoveEnded();
  EXPECT_THAT(tokens_->List(), SizeIs(5)) << "memory has what the store has";
  disk_.write_error = 0;
  Open();
  tokens_->RemoveEnded();
  const auto names = [this] {
    std::vector<std::string> names;
    for (const db::TokenRow& row : tokens_->List()) names.push_back(row.name);
    return names;
  };
  const std::vector<std::string> left = {"just revoked", "just expired", "lives"};
  EXPECT_EQ(names(), left);
  Open();
  EXPECT_EQ(names(), left) << "in the store, too";
  ASSERT_THAT(tokens_->List(2), SizeIs(2));
  const std::vector<db::TokenRow> last = tokens_->List(2, tokens_->List(2).back().id);
  ASSERT_THAT(last, SizeIs(1)) << "the second page";
  EXPECT_EQ(last[0].name, "lives");
}

TEST_F(TokensTest, ARevocationThatCouldNotBeStoredCountsAndIsStoredLater) {
  struct Case {
    const char* name;
    std::function<void()> later;
  };
  const Case cases[] = {
      {"by a second revocation", [this] { EXPECT_TRUE(tokens_->Revoke(0, "alice").ok()); }},
      {"by itself", [this] { tokens_->StoreLater(); }},
      {"by itself, after it failed once more",
       [this] {
         disk_.write_error = ENOSPC;
         tokens_->StoreLater();
         EXPECT_THAT(tokens_->NotStored(), SizeIs(2));
         disk_.write_error = 0;
         tokens_->StoreLater();
       }},
      {"by the id of each",
       [this] {
         for (const int64_t id : tokens_->NotStored()) {
           EXPECT_TRUE(tokens_->Revoke(id, "").ok());
         }
       }},
  };
  for (const auto& [name, later] : cases) {
    for (const int error : {ENOSPC, EIO, EROFS}) {
      SCOPED_TRACE(testing::Message() << name << ", error " << error);
      const NewToken first = Make("alice"), second = Make("alice"), other = Make("bob");
      disk_.write_error = error;
      const absl::Status failed = tokens_->Revoke(0, "alice").status();
      EXPECT_FALSE(failed.ok());
      EXPECT_THAT(failed.message(), HasSubstr("could not be stored"));
      EXPECT_FALSE(IsValid(first));
      EXPECT_FALSE(IsValid(second)) << "the failure of one is not the end of the others";
      EXPECT_THAT(tokens_->NotStored(), SizeIs(2));
      disk_.write_error = 0;
      later();
      EXPECT_THAT(tokens_->NotStored(), IsEmpty());
      EXPECT_TRUE(absl::IsNotFound(tokens_->Revoke(0, "alice").status())) << "it is done";
      Open();
      EXPECT_FALSE(IsValid(first)) << "after a restart";
      EXPECT_FALSE(IsValid(second));
      EXPECT_TRUE(IsValid(other));
    }
  }
}

TEST_F(TokensTest, ARevocationIsStoredAtAStopInOrderAndNamedIfItIsNot) {
  const auto lines = std::make_shared<std::ostringstream>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(*lines)));
  const NewToken freed = Make("freed"), full = Make("full");
  disk_.write_error = ENOSPC;
  EXPECT_FALSE(tokens_->Revoke(0, "freed").ok());
  tokens_->StoreLater();
  disk_.write_error = 0;
  Open();
  EXPECT_FALSE(IsValid(freed));
  disk_.write_error = ENOSPC;
  EXPECT_FALSE(tokens_->Revoke(0, "full").ok());
  tokens_ = nullptr;
  disk_.write_error = 0;
  Open();
  EXPECT_TRUE(IsValid(full));
  spdlog::set_default_logger(before);
  const std::string log = lines->str();
  const std::string first = "[warning] the revocation of token 1 of freed is not stored";
  EXPECT_THAT(log, HasSubstr(first));
  EXPECT_EQ(log.find(first), log.rfind(first)) << "though it was tried twice";
  EXPECT_THAT(log, HasSubstr("[error] token 2 of full will be valid again"));
}

TEST_F(TokensTest, ATokenThatCouldNotBeStoredIsNotThere) {
  disk_.write_error = ENOSPC;
  EXPECT_FALSE(tokens_->Create("alice", db::Role::kReader, absl::ZeroDuration(), "root").ok());
  EXPECT_THAT(tokens_->List(), IsEmpty());
  disk_.write_error = 0;
  EXPECT_TRUE(IsValid(Make("alice")));
  Open();
  EXPECT_THAT(tokens_->List(), SizeIs(1));
}

TEST_F(TokensTest, AUseThatCouldNotBeStoredRefusesNobody) {
  const NewToken token = Make("alice");
  disk_.write_error = ENOSPC;
  EXPECT_TRUE(IsValid(token));
  disk_.write_error = 0;
  Open();
  EXPECT_TRUE(IsValid(token));
}

TEST_F(TokensTest, AnOpenCallIsAskedByItsHash) {
  const NewToken token = Make("alice");
  const std::string hash = Tokens::HashOf(token.secret);
  EXPECT_TRUE(tokens_->Check(hash).ok());
  EXPECT_EQ(tokens_->List().front().last_used_unix_ms, 0) << "it is no use";
  ASSERT_TRUE(tokens_->Revoke(token.row.id, "").ok());
  EXPECT_TRUE(absl::IsUnauthenticated(tokens_->Check(hash)));
}

TEST_F(TokensTest, ListsTheNewestFirst) {
  Make("a");
  Make("b");
  EXPECT_EQ(tokens_->List().front().name, "b");
  Open();
  EXPECT_EQ(tokens_->List().front().name, "b");
}

}  // namespace
}  // namespace tune::server
