// SPDX-License-Identifier: Apache-2.0
// Clients by TLS, with tokens and certificates: what they may do, whose their work is, and what
// their kernels are called.
#include <grpcpp/grpcpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/access/authority.h"
#include "tests/server/test_server.h"
#include "tune/v1/access.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/snapshot.grpc.pb.h"

namespace tune::server {
namespace {

using grpc::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

// A client with everything that these tests call.
struct Client : Stubs {
  explicit Client(const std::shared_ptr<grpc::Channel>& channel)
      : Stubs(channel),
        jobs(v1::JobService::NewStub(channel)),
        tokens(v1::TokenService::NewStub(channel)) {}

  StatusCode Status() const {
    v1::ServerStatus status;
    return Call(*server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
        .error_code();
  }
  v1::ServerStatus StatusNow() const {
    v1::ServerStatus status;
    const grpc::Status asked =
        Call(*server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status);
    EXPECT_TRUE(asked.ok()) << asked.error_message();
    return status;
  }

  const std::unique_ptr<v1::JobService::Stub> jobs;
  const std::unique_ptr<v1::TokenService::Stub> tokens;
};

class ClientsTest : public testing::Test {
 protected:
  ClientsTest() : authority_(dir_.path()), daemon_(authority_.Sign("daemon")) {
    (void)StartLog("off", LogFormat::kText);
  }

  ServerOptions Options() const {
    return {.state_dir = dir_.path() + "/state",
            .addresses = {"127.0.0.1:0"},
            .tls = {.certificate_file = daemon_.certificate,
                    .key_file = daemon_.key,
                    .client_authority_file = authority_.file()},
            .worker_dir = TUNE_BIN_DIR,
            .limits = {.compile_workers = 1}};
  }
  void Start(const ServerOptions& options) {
    server_ = nullptr;
    server_ = Server::Start(options).value();
    operator_ = std::make_unique<Client>(server_->InProcessChannel());
  }

  v1::CreateTokenResponse MakeToken(const std::string& name, v1::PrincipalRole role,
                                    int64_t seconds = 0) {
    v1::CreateTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    request.set_seconds_valid(seconds);
    v1::CreateTokenResponse response;
    const grpc::Status made =
        Call(*operator_->tokens, &v1::TokenService::Stub::CreateToken, request, &response);
    EXPECT_TRUE(made.ok()) << made.error_message();
    return response;
  }
  Client WithToken(const std::string& secret) const {
    return Client(ConnectByTls(server_->addresses()[0], authority_.file(), {}, secret));
  }
  Client Submitter(const std::string& name) {
    return WithToken(MakeToken(name, v1::PRINCIPAL_ROLE_SUBMITTER).secret());
  }

  void Revoke(const std::string& name) {
    v1::RevokeTokenRequest request;
    request.set_name(name);
    v1::RevokeTokenResponse revoked;
    const grpc::Status status =
        Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, request, &revoked);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // A sweep on the CPU.
  grpc::Status Submit(const Client& client, const ScaleOptions& kernel, uint64_t trials,
                      v1::Sweep& sweep) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel(kernel);
    request.set_device("cpu");
    request.mutable_budget()->set_trials(static_cast<uint32_t>(trials));
    return Call(*client.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
  }
  // The name of the kernel that was swept.
  std::string Sweep(const Client& client, const ScaleOptions& kernel) {
    v1::Sweep sweep;
    const grpc::Status submitted = Submit(client, kernel, 1, sweep);
    EXPECT_TRUE(submitted.ok()) << submitted.error_message();
    sweep = AwaitEnd(*client.sweeps, sweep.id());
    EXPECT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
    return sweep.kernel_name();
  }
  grpc::Status Lookup(const Client& client, const std::string& kernel,
                      v1::LookupResponse& response) {
    v1::LookupRequest request;
    request.set_kernel_name(kernel);
    request.set_device("cpu");
    return Call(*client.records, &v1::RecordService::Stub::Lookup, request, &response);
  }
  std::vector<std::string> Records() {
    v1::ListRecordsResponse response;
    EXPECT_TRUE(Call(*operator_->records, &v1::RecordService::Stub::ListRecords,
                     v1::ListRecordsRequest(), &response)
                    .ok());
    std::vector<std::string> records;
    for (const v1::Record& record : response.records()) {
      if (record.id() == 0) continue;  // it came with the program
      records.push_back(absl::StrCat(record.kernel_name(), " by ", record.submitter()));
    }
    return records;
  }
  static void Await(const std::function<bool()>& condition) {
    for (int i = 0; i < 200 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(50));
    EXPECT_TRUE(condition());
  }

  TempDir dir_;
  const Authority authority_;
  const KeyPair daemon_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> operator_;
};

// They would carry the client's certificate, twice, and no client asks for them.
TEST_F(ClientsTest, AHandshakeEndsWithoutSessionTickets) {
  Start(Options());
  const KeyPair mine = authority_.Sign("mine");
  const std::string log = dir_.path() + "/handshake";
  const std::string command = absl::StrCat(
      "sleep 1 | openssl s_client -connect ", server_->addresses()[0], " -alpn h2 -CAfile ",
      authority_.file(), " -cert ", mine.certificate, " -key ", mine.key, " > ", log, " 2>&1");
  (void)system(command.c_str());
  EXPECT_THAT(TextOf(log), AllOf(HasSubstr("Verify return code: 0 (ok)"), HasSubstr("TLSv1.3")));
  EXPECT_THAT(TextOf(log), Not(HasSubstr("Session Ticket")));
}

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
  ASSERT_TRUE(Call(*operator_->tokens, &v1::TokenService::Stub::ListTokens,
                   v1::ListTokensRequest(), &list)
                  .ok());
  ASSERT_EQ(list.tokens_size(), 1);
  EXPECT_GT(list.tokens(0).last_used_unix_ms(), 0);
  EXPECT_FALSE(list.tokens(0).creator().empty());
  EXPECT_THAT(TextOf(dir_.path() + "/state/tune.db"), testing::Not(HasSubstr(made.secret())));

  v1::RevokeTokenRequest revoke;
  revoke.set_name("ci");
  v1::RevokeTokenResponse revoked;
  ASSERT_TRUE(
      Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked).ok());
  EXPECT_EQ(revoked.tokens_size(), 1);
  EXPECT_EQ(again.Status(), StatusCode::UNAUTHENTICATED) << "on the connection that is open";
  EXPECT_EQ(Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked)
                .error_code(),
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
    const auto sweeps = v1::SweepService::NewStub(channel);
    const auto jobs = v1::JobService::NewStub(channel);
    grpc::ClientContext watching, following;
    watching.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    following.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::WatchSweepRequest watch;
    watch.set_sweep_id(sweep.id());
    v1::WatchJobRequest follow;
    follow.set_job_id(sweep.job_id());
    const auto events = sweeps->WatchSweep(&watching, watch);
    const auto states = jobs->WatchJob(&following, follow);
    v1::SweepEvent event;
    v1::Job job;
    EXPECT_TRUE(events->Read(&event));
    EXPECT_TRUE(states->Read(&job));
    end();
    while (events->Read(&event)) continue;
    while (states->Read(&job)) continue;
    EXPECT_EQ(events->Finish().error_code(), StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(states->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  }
  v1::CancelSweepRequest cancel;
  cancel.set_sweep_id(sweep.id());
  EXPECT_TRUE(
      Call(*operator_->sweeps, &v1::SweepService::Stub::CancelSweep, cancel, &sweep).ok());
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

TEST_F(ClientsTest, OnesWorkIsOnesOwn) {
  ServerOptions options = Options();
  options.clients.jobs_per_principal = 1;
  Start(options);
  const Client alice = Submitter("alice"), bob = Submitter("bob");
  v1::Sweep sweep;
  const grpc::Status submitted = Submit(alice, {.items = "range(1, 400)"}, 1000, sweep);
  ASSERT_TRUE(submitted.ok()) << submitted.error_message();

  v1::CancelSweepRequest cancel_sweep;
  cancel_sweep.set_sweep_id(sweep.id());
  v1::CancelJobRequest cancel_job;
  cancel_job.set_job_id(sweep.job_id());
  v1::Sweep cancelled;
  v1::Job job;
  grpc::Status refused =
      Call(*bob.sweeps, &v1::SweepService::Stub::CancelSweep, cancel_sweep, &cancelled);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("is alice's"));
  refused = Call(*bob.jobs, &v1::JobService::Stub::CancelJob, cancel_job, &job);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);

  // She has as many as she may; others are not in her way, nor is the operator bound.
  v1::Sweep second;
  EXPECT_EQ(Submit(alice, {}, 1, second).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  v1::Sweep others[3];
  EXPECT_TRUE(Submit(bob, {}, 1, others[0]).ok());
  EXPECT_TRUE(Submit(*operator_, {}, 1, others[1]).ok());
  EXPECT_TRUE(Submit(*operator_, {}, 1, others[2]).ok());

  const grpc::Status own =
      Call(*alice.jobs, &v1::JobService::Stub::CancelJob, cancel_job, &job);
  EXPECT_TRUE(own.ok()) << own.error_message();
  EXPECT_EQ(job.owner(), "alice");
  cancel_sweep.set_sweep_id(others[0].id());
  EXPECT_TRUE(
      Call(*operator_->sweeps, &v1::SweepService::Stub::CancelSweep, cancel_sweep, &cancelled)
          .ok());
}

TEST_F(ClientsTest, AllJobsOfAPrincipalAreListedAndCancelledAtOnce) {
  Start(Options());
  const Client alice = Submitter("alice"), bob = Submitter("bob");
  v1::Sweep sweep;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Submit(alice, {.items = "range(1, 400)"}, 1000, sweep).ok());
  }
  ASSERT_TRUE(Submit(bob, {.items = "range(1, 400)"}, 1000, sweep).ok());
  const auto owners_of = [&](const std::string& owner) {
    v1::ListJobsRequest request;
    request.set_owner(owner);
    request.set_unfinished(true);
    v1::ListJobsResponse listed;
    EXPECT_TRUE(Call(*bob.jobs, &v1::JobService::Stub::ListJobs, request, &listed).ok());
    std::vector<std::string> owners;
    for (const v1::Job& job : listed.jobs()) owners.push_back(job.owner());
    return owners;
  };
  EXPECT_THAT(owners_of("alice"), testing::ElementsAre("alice", "alice"));
  v1::CancelJobsRequest cancel;
  cancel.set_owner("alice");
  v1::CancelJobsResponse cancelled;
  const auto cancel_as = [&](const Client& client) {
    cancelled.Clear();
    return Call(*client.jobs, &v1::JobService::Stub::CancelJobs, cancel, &cancelled);
  };
  const grpc::Status refused = cancel_as(bob);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("alice or an operator can cancel them"));
  ASSERT_TRUE(cancel_as(alice).ok());
  ASSERT_EQ(cancelled.jobs_size(), 2) << cancelled.DebugString();
  EXPECT_EQ(cancelled.jobs(0).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(owners_of(""), testing::ElementsAre("bob"));

  v1::RevokeTokenRequest revoke;
  revoke.set_name("bob");
  revoke.set_with_jobs(true);
  v1::RevokeTokenResponse revoked;
  ASSERT_TRUE(
      Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked).ok());
  EXPECT_EQ(revoked.cancelled_job_ids_size(), 1);
  cancel.set_owner("");
  EXPECT_EQ(cancel_as(alice).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ClientsTest, SourcesHaveAQuota) {
  ServerOptions options = Options();
  const v1::KernelSource source = ScaleKernel();
  int64_t bytes = static_cast<int64_t>(source.spec_text().size());
  for (const auto& [name, text] : source.files()) bytes += static_cast<int64_t>(text.size());
  options.clients.kernel_bytes_per_principal = bytes + 100;  // one of them
  Start(options);
  const Client alice = Submitter("alice");
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(alice, {.items = "[1, 2]"}, 1, sweep).ok());
  EXPECT_TRUE(Submit(alice, {.items = "[1, 2]"}, 1, sweep).ok()) << "the same again";
  EXPECT_EQ(Submit(alice, {.items = "[1, 4]"}, 1, sweep).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Submit(*operator_, {.items = "[1, 4]"}, 1, sweep).ok());
}

TEST_F(ClientsTest, KernelsAreTheirSubmitters) {
  Start(Options());
  const Client alice = Submitter("alice"), bob = Submitter("bob");
  EXPECT_EQ(Sweep(alice, {.items = "[1, 2]"}), "alice/scale");
  v1::LookupResponse found;
  EXPECT_EQ(Lookup(bob, "scale", found).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(Lookup(bob, "alice/scale", found).ok());
  EXPECT_EQ(found.match(), v1::MATCH_EXACT);
  EXPECT_EQ(found.record().kernel_name(), "alice/scale");

  // The same source of somebody else displaces nothing, though the key is the same.
  EXPECT_EQ(Sweep(bob, {.items = "[1, 2]"}), "bob/scale");
  const auto all = UnorderedElementsAre("alice/scale by alice", "bob/scale by bob");
  EXPECT_THAT(Records(), all);
  EXPECT_EQ(Lookup(*operator_, "scale", found).error_code(), StatusCode::NOT_FOUND);

  Start(Options());
  EXPECT_THAT(Records(), all) << "after a restart";
  EXPECT_TRUE(Lookup(*operator_, "bob/scale", found).ok());
  EXPECT_EQ(found.record().submitter(), "bob");

  // An operator's is everybody's, and so is a sweep of the catalogue's, whoever asks for it.
  v1::Sweep shared;
  ASSERT_TRUE(Submit(*operator_, {}, 1, shared).ok());
  EXPECT_EQ(shared.kernel_name(), "scale");
  v1::SubmitSweepRequest request;
  request.set_kernel_name("softmax");
  request.set_device("cpu");
  request.mutable_budget()->set_trials(1);
  v1::Sweep sweep;
  const Client carol = Submitter("carol");
  ASSERT_TRUE(Call(*carol.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep).ok());
  EXPECT_EQ(sweep.kernel_name(), "softmax");
}

// Everything that a reader is told of sweeps and jobs, as text.
std::string AllWords(const Client& client, int64_t sweep_id) {
  std::string words;
  v1::ListSweepsResponse sweeps;
  EXPECT_TRUE(Call(*client.sweeps, &v1::SweepService::Stub::ListSweeps, v1::ListSweepsRequest(),
                   &sweeps)
                  .ok());
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(
      Call(*client.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest(), &jobs).ok());
  v1::GetSweepRequest get;
  get.set_sweep_id(sweep_id);
  v1::Sweep sweep;
  EXPECT_TRUE(Call(*client.sweeps, &v1::SweepService::Stub::GetSweep, get, &sweep).ok());
  v1::GetJobRequest get_job;
  get_job.set_job_id(sweep.job_id());
  v1::Job job;
  EXPECT_TRUE(Call(*client.jobs, &v1::JobService::Stub::GetJob, get_job, &job).ok());
  std::vector<v1::SweepEvent> events;
  AwaitEnd(*client.sweeps, sweep_id, &events);
  for (const v1::SweepEvent& event : events) words += event.DebugString();
  grpc::ClientContext context;
  v1::ListTrialsRequest list;
  list.set_sweep_id(sweep_id);
  list.set_with_reused(true);
  auto reader = client.sweeps->ListTrials(&context, list);
  for (v1::Trial trial; reader->Read(&trial);) words += trial.DebugString();
  EXPECT_TRUE(reader->Finish().ok());
  return words + sweeps.DebugString() + jobs.DebugString() + sweep.DebugString() +
         job.DebugString();
}

TEST_F(ClientsTest, OthersDoNotSeeWhatCompilersSaidOfAKernel) {
  Start(Options());
  const Client alice = Submitter("alice");
  const Client bob = Submitter("bob");
  const Client rita = WithToken(MakeToken("rita", v1::PRINCIPAL_ROLE_READER).secret());
  // In a variant, so that trials fail; in the reference, so that the job does.
  for (const char* secret_is_in : {"3.0f", "3.0 * x"}) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel({.items = "[1]"});
    std::string& text = (*request.mutable_kernel_source()->mutable_files())["scale.cu"];
    text.replace(text.find(secret_is_in), 3, "trade_secret");
    request.set_device("cpu");
    request.mutable_budget()->set_trials(2);
    v1::Sweep sweep;
    const grpc::Status submitted =
        Call(*alice.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
    ASSERT_TRUE(submitted.ok()) << submitted.error_message();
    AwaitEnd(*alice.sweeps, sweep.id());
    EXPECT_THAT(AllWords(alice, sweep.id()), HasSubstr("trade_secret"));
    EXPECT_THAT(AllWords(*operator_, sweep.id()), HasSubstr("trade_secret"));
    for (const Client* other : {&bob, &rita}) {
      EXPECT_THAT(AllWords(*other, sweep.id()),
                  AllOf(Not(HasSubstr("trade_secret")),
                        HasSubstr("what was said of it is for alice and operators")));
    }
  }
}

TEST_F(ClientsTest, ArtifactsOfANameSpaceAreItsOwners) {
  Start(Options());
  const Client alice = Submitter("alice");
  EXPECT_EQ(Sweep(alice, {.items = "[1]"}), "alice/scale");
  const Client bob = Submitter("bob");
  const Client rita = WithToken(MakeToken("rita", v1::PRINCIPAL_ROLE_READER).secret());
  v1::ListRecordsRequest list;
  list.set_kernel_name("alice/scale");
  v1::ListRecordsResponse records;
  ASSERT_TRUE(Call(*rita.records, &v1::RecordService::Stub::ListRecords, list, &records).ok());
  ASSERT_EQ(records.records_size(), 1);
  v1::ReadArtifactRequest request;
  request.set_artifact(records.records(0).artifact());
  ASSERT_NE(request.artifact(), "");
  const auto read = [&](const Client& client) {
    v1::ReadArtifactResponse response;
    return Call(*client.records, &v1::RecordService::Stub::ReadArtifact, request, &response);
  };
  EXPECT_TRUE(read(alice).ok());
  EXPECT_TRUE(read(*operator_).ok());
  for (const Client* other : {&bob, &rita}) {
    const grpc::Status refused = read(*other);
    EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED) << refused.error_message();
    EXPECT_THAT(refused.error_message(), HasSubstr("alice"));
  }
  // Those of kernels that all share are everybody's.
  EXPECT_EQ(Sweep(*operator_, {.items = "[4]"}), "scale");
  list.set_kernel_name("scale");
  ASSERT_TRUE(Call(*rita.records, &v1::RecordService::Stub::ListRecords, list, &records).ok());
  ASSERT_EQ(records.records_size(), 1);
  request.set_artifact(records.records(0).artifact());
  EXPECT_TRUE(read(rita).ok());
}

TEST_F(ClientsTest, WhatJobsStoreHasAQuotaAndIsGivenBack) {
  Start(Options());
  const std::string secret = MakeToken("alice", v1::PRINCIPAL_ROLE_SUBMITTER).secret();
  Sweep(WithToken(secret), {.items = "[1]"});
  ServerOptions options = Options();
  options.clients.stored_bytes_per_principal = 1;
  Start(options);
  const Client alice = WithToken(secret);
  v1::Sweep sweep;
  const grpc::Status refused = Submit(alice, {.items = "[1]"}, 1, sweep);
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              AllOf(HasSubstr("tunectl job prune --owner alice"),
                    HasSubstr("--stored-bytes-per-principal")));
  ASSERT_EQ(alice.StatusNow().stored_size(), 1);
  const v1::StoredBytes stored = alice.StatusNow().stored(0);
  EXPECT_EQ(stored.owner(), "alice");
  EXPECT_GT(stored.kernel_bytes(), 1000u);
  EXPECT_GT(stored.result_bytes(), 1000u);
  EXPECT_GT(stored.artifact_bytes(), 100u);

  v1::PruneJobsRequest prune;
  prune.set_owner("alice");
  prune.set_before_unix_ms(absl::ToUnixMillis(absl::Now()) + 1000);
  v1::PruneJobsResponse pruned;
  EXPECT_EQ(Call(*alice.server, &v1::ServerService::Stub::PruneJobs, prune, &pruned).error_code(),
            StatusCode::PERMISSION_DENIED);
  Sweep(*operator_, {.items = "[4]"});  // the newest stays for its number
  ASSERT_TRUE(Call(*operator_->server, &v1::ServerService::Stub::PruneJobs, prune, &pruned).ok());
  EXPECT_EQ(pruned.jobs(), 1u);
  EXPECT_EQ(Records().size(), 2u) << "what records stand on stays";
}

TEST_F(ClientsTest, ASubmittersQuestionsAboutSpacesKeepNobodyFromSubmitting) {
  Start(Options());
  const Client mallory = Submitter("mallory");
  const Client alice = Submitter("alice");
  std::string constraint = "A";
  for (int i = 0; i < 1900; ++i) constraint += "<2";
  std::string constraints;
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&constraints, i == 0 ? "" : ",", "\"", constraint, "\"");
  }
  v1::DescribeSpaceRequest hostile;
  hostile.mutable_space()->set_definition_json(absl::StrCat(
      "{\"tune_params\":{\"A\":[0,1]},\"restrictions\":[", constraints, "]}"));
  hostile.set_details(true);
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        v1::DescribeSpaceResponse response;
        Call(*mallory.kernels, &v1::KernelService::Stub::DescribeSpace, hostile, &response);
      }
    });
  }
  absl::SleepFor(absl::Seconds(1));
  v1::Sweep sweep;
  const grpc::Status submitted = Submit(alice, {.items = "[1]"}, 1, sweep);  // within a minute
  EXPECT_TRUE(submitted.ok()) << submitted.error_message();
  over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tune::server
