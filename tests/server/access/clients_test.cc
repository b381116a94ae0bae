// SPDX-License-Identifier: Apache-2.0
// Clients by TLS, with tokens and certificates: how they are known, and for how long.
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/server/access/clients_fixture.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(ClientsTest, AnOperatorMakesTokensAndEndsThemAtOnce) {
  Start(Options());
  const v1::CreateTokenResponse made = MakeToken("ci", v1::PRINCIPAL_ROLE_SUBMITTER);
  EXPECT_EQ(made.secret().size(), 5 + 64u);
  const Client ci = WithToken(made.secret());
  const v1::ServerStatus status = ci.StatusNow();
  EXPECT_EQ(status.caller().name(), "ci");
  EXPECT_EQ(status.caller().role(), v1::PRINCIPAL_ROLE_SUBMITTER);
  EXPECT_EQ(WithToken("tune_nonsense").Status(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(WithToken(made.secret() + "0").Status(), StatusCode::UNAUTHENTICATED);

  v1::CreateTokenRequest other_role;
  other_role.set_name("ci");
  other_role.set_role(v1::PRINCIPAL_ROLE_OPERATOR);
  v1::CreateTokenResponse refused;
  EXPECT_EQ(Call(*operator_->tokens, &v1::TokenService::Stub::CreateToken, other_role, &refused)
                .error_code(),
            StatusCode::ALREADY_EXISTS);
  other_role.set_name("root");
  other_role.set_role(v1::PRINCIPAL_ROLE_SUBMITTER);
  EXPECT_EQ(Call(*operator_->tokens, &v1::TokenService::Stub::CreateToken, other_role, &refused)
                .error_code(),
            StatusCode::INVALID_ARGUMENT);

  Start(Options());
  const Client again = WithToken(made.secret());
  EXPECT_EQ(again.Status(), StatusCode::OK) << "kept across a restart";
  v1::ListTokensResponse list;
  ASSERT_TRUE(
      Call(*operator_->tokens, &v1::TokenService::Stub::ListTokens, v1::ListTokensRequest(), &list)
          .ok());
  ASSERT_EQ(list.tokens_size(), 1);
  EXPECT_GT(list.tokens(0).last_used_unix_ms(), 0);
  EXPECT_FALSE(list.tokens(0).creator().empty());
  EXPECT_THAT(TextOf(dir_.path() + "/state/tune.db"), testing::Not(HasSubstr(made.secret())));

  v1::ListTokensRequest page;
  page.set_limit(1);
  ASSERT_TRUE(Call(*operator_->tokens, &v1::TokenService::Stub::ListTokens, page, &list).ok());
  EXPECT_EQ(list.tokens_size(), 1);
  page.set_page_token(list.next_page_token());
  ASSERT_TRUE(Call(*operator_->tokens, &v1::TokenService::Stub::ListTokens, page, &list).ok());
  EXPECT_EQ(list.tokens_size(), 0) << "there is one token";
  EXPECT_EQ(list.next_page_token(), "");
  page.set_page_token("third");
  EXPECT_EQ(Call(*operator_->tokens, &v1::TokenService::Stub::ListTokens, page, &list).error_code(),
            StatusCode::INVALID_ARGUMENT);

  v1::RevokeTokenRequest revoke;
  revoke.set_name("ci");
  v1::RevokeTokenResponse revoked;
  ASSERT_TRUE(
      Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked).ok());
  EXPECT_EQ(revoked.tokens_size(), 1);
  EXPECT_EQ(again.Status(), StatusCode::UNAUTHENTICATED) << "on the connection that is open";
  EXPECT_EQ(
      Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked).error_code(),
      StatusCode::NOT_FOUND);
}

TEST_F(ClientsTest, ATokenExpires) {
  Start(Options());
  const Client client = WithToken(MakeToken("ci", v1::PRINCIPAL_ROLE_READER, 2).secret());
  EXPECT_EQ(client.Status(), StatusCode::OK);
  Await([&] { return client.Status() == StatusCode::UNAUTHENTICATED; });
}

// Each is the standing of a caller that ends while its call is open.
TEST_F(ClientsTest, AnOpenWatchEndsWithItsToken) {
  Start(Options());
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(*operator_, {.items = "range(1, 400)"}, 100000, sweep).ok());
  const v1::CreateTokenResponse revoked = MakeToken("eve", v1::PRINCIPAL_ROLE_READER);
  const v1::CreateTokenResponse expires = MakeToken("rita", v1::PRINCIPAL_ROLE_READER, 15);
  const KeyPair pair = authority_.Sign("carl");
  const std::string address = server_->addresses()[0];
  const struct {
    const char* name;
    std::shared_ptr<grpc::Channel> channel;
    std::function<void()> end;
  } cases[] = {
      {"revoked", ConnectByTls(address, authority_.file(), {}, revoked.secret()),
       [&] { Revoke("eve"); }},
      {"expired", ConnectByTls(address, authority_.file(), {}, expires.secret()), [] {}},
      {"certificate", ConnectByTls(address, authority_.file(), pair),
       [&] {
         const TempDir elsewhere;
         const Authority other(elsewhere.path());
         std::filesystem::copy(other.file(), authority_.file(),
                               std::filesystem::copy_options::overwrite_existing);
       }},
  };
  for (const auto& [name, channel, end] : cases) {
    SCOPED_TRACE(name);
    const auto jobs = v1::JobService::NewStub(channel);
    grpc::ClientContext following;
    following.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::WatchJobRequest follow;
    follow.set_job_id(sweep.job_id());
    const auto events = jobs->WatchJob(&following, follow);
    v1::JobEvent event;
    EXPECT_TRUE(events->Read(&event));
    end();
    while (events->Read(&event)) continue;
    EXPECT_EQ(events->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  }
  EXPECT_TRUE(CancelJob(*operator_->jobs, sweep.job_id()).ok());
}

TEST_F(ClientsTest, AnIdempotencyKeyIsItsPrincipals) {
  Start(Options());
  const Client ci = Submitter("ci");
  const Client ops = WithToken(MakeToken("ops", v1::PRINCIPAL_ROLE_OPERATOR).secret());
  const auto submit = [](const Client& client, const std::string& key, const std::string& kernel,
                         v1::Sweep& sweep) {
    v1::SubmitSweepRequest request;
    request.set_kernel_name(kernel);
    request.set_device("cpu");
    request.mutable_budget()->set_trials(1);
    (*request.mutable_dims())["rows"] = 8;
    (*request.mutable_dims())["cols"] = 64;
    request.set_idempotency_key(key);
    return Call(*client.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
  };
  v1::Sweep first, other;
  ASSERT_TRUE(submit(ci, "build-7", "softmax", first).ok());
  ASSERT_TRUE(submit(ci, "build-7", "softmax", other).ok());
  EXPECT_EQ(other.id(), first.id());
  for (const char* key : {"ci/build-7", "build-7", "/build-7", "ci%2fbuild-7"}) {
    ASSERT_TRUE(submit(ops, key, "layernorm", other).ok()) << key;
    EXPECT_EQ(other.kernel_name(), "layernorm") << key;
    EXPECT_NE(other.id(), first.id());
  }
  const grpc::Status reused = submit(ci, "build-7", "layernorm", other);
  EXPECT_EQ(reused.error_code(), StatusCode::ALREADY_EXISTS) << reused.error_message();
  EXPECT_THAT(reused.error_message(), AllOf(HasSubstr("build-7"), HasSubstr("softmax")));
  (void)AwaitEnd(*operator_->sweeps, first.id());
  Start(Options());
  const Client again = Submitter("ci");
  EXPECT_EQ(submit(again, "build-7", "layernorm", other).error_code(), StatusCode::ALREADY_EXISTS)
      << "after its end and a restart";
  ASSERT_TRUE(submit(again, "build-7", "softmax", other).ok());
  EXPECT_EQ(other.id(), first.id());
}

TEST_F(ClientsTest, ACertificateIsRenewedWithoutARestart) {
  Start(Options());
  const KeyPair mine = authority_.Sign("me");
  const auto reaches = [&] {
    return Client(ConnectByTls(server_->addresses()[0], authority_.file(), mine)).Status() ==
           StatusCode::OK;
  };
  EXPECT_TRUE(reaches());
  const int64_t before = operator_->StatusNow().certificate().expires_unix_ms();
  EXPECT_GT(before, 0);

  // A key that is not the certificate's is noticed, and the pair of before goes on.
  const KeyPair renewed = authority_.Sign("renewed", 30);
  std::filesystem::rename(renewed.certificate, daemon_.certificate);
  Await([&] { return !operator_->StatusNow().certificate().problem().empty(); });
  EXPECT_THAT(operator_->StatusNow().certificate().problem(), HasSubstr("is not the key of"));
  EXPECT_TRUE(reaches());
  EXPECT_EQ(operator_->StatusNow().certificate().expires_unix_ms(), before);

  std::filesystem::rename(renewed.key, daemon_.key);
  Await([&] { return operator_->StatusNow().certificate().expires_unix_ms() > before; });
  EXPECT_EQ(operator_->StatusNow().certificate().problem(), "");
  EXPECT_TRUE(reaches());
}

}  // namespace
}  // namespace tune::server
