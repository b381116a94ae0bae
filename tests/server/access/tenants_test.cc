// SPDX-License-Identifier: Apache-2.0
// Submitters beside one another: whose work and kernels are whose, what others see of them, and
// what one may take.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/db/faulty_disk.h"
#include "tests/server/access/clients_fixture.h"
#include "tune/v1/snapshot.grpc.pb.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

TEST_F(ClientsTest, OnesWorkIsOnesOwn) {
  ServerOptions options = Options();
  options.clients.jobs_per_principal = 1;
  Start(options);
  const Client alice = Submitter("alice"), bob = Submitter("bob");
  v1::Sweep sweep;
  const grpc::Status submitted = Submit(alice, {.items = "range(1, 400)"}, 1000, sweep);
  ASSERT_TRUE(submitted.ok()) << submitted.error_message();

  v1::CancelJobRequest cancel_job;
  cancel_job.set_job_id(sweep.job_id());
  v1::Job job;
  const grpc::Status refused = Call(*bob.jobs, &v1::JobService::Stub::CancelJob, cancel_job, &job);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("is alice's"));

  // She has as many as she may; others are not in her way, nor is the operator bound.
  v1::Sweep second;
  EXPECT_EQ(Submit(alice, {}, 1, second).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  v1::Sweep others[3];
  EXPECT_TRUE(Submit(bob, {}, 1, others[0]).ok());
  EXPECT_TRUE(Submit(*operator_, {}, 1, others[1]).ok());
  EXPECT_TRUE(Submit(*operator_, {}, 1, others[2]).ok());

  const grpc::Status own = Call(*alice.jobs, &v1::JobService::Stub::CancelJob, cancel_job, &job);
  EXPECT_TRUE(own.ok()) << own.error_message();
  EXPECT_EQ(job.owner(), "alice");
  EXPECT_TRUE(CancelJob(*operator_->jobs, others[0].job_id()).ok());
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

TEST_F(ClientsTest, CancellationsByAnOperatorAreLoggedWithItsAddress) {
  Start(Options());
  const Client alice = Submitter("alice");
  const Client ops = WithToken(MakeToken("ops", v1::PRINCIPAL_ROLE_OPERATOR).secret());
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(alice, {.items = "range(1, 400)"}, 1000, sweep).ok());
  const int64_t first = sweep.job_id();
  ASSERT_TRUE(Submit(alice, {.items = "range(1, 400)"}, 1000, sweep).ok());
  const auto lines = std::make_shared<std::ostringstream>();
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(*lines)));
  EXPECT_TRUE(CancelJob(*ops.jobs, first).ok());
  v1::CancelJobsRequest cancel;
  cancel.set_owner("alice");
  v1::CancelJobsResponse cancelled;
  EXPECT_TRUE(Call(*ops.jobs, &v1::JobService::Stub::CancelJobs, cancel, &cancelled).ok());
  server_ = nullptr;  // before the logger
  spdlog::set_default_logger(before);
  EXPECT_THAT(lines->str(), HasSubstr(absl::StrCat("ops, an operator, cancels job ", first,
                                                   " of alice from 127.0.0.1")));
  EXPECT_THAT(lines->str(), HasSubstr("ops, an operator, cancelled 1 job of alice from 127.0.0.1"));
}

TEST_F(ClientsTest, WhoDidWhatIsInTheAuditLog) {
  ServerOptions options = Options();
  options.audit_log = dir_.path() + "/audit.jsonl";
  Start(options);
  const Client alice = Submitter("alice");
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(alice, {.items = "[1, 2]"}, 1, sweep).ok());
  ASSERT_TRUE(CancelJob(*alice.jobs, sweep.job_id()).ok());
  v1::ListTokensResponse tokens;
  EXPECT_FALSE(
      Call(*alice.tokens, &v1::TokenService::Stub::ListTokens, v1::ListTokensRequest(), &tokens)
          .ok());
  server_ = nullptr;  // which writes what is left

  std::vector<std::string> acts;
  std::ifstream file(options.audit_log);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json act = nlohmann::json::parse(line);
    EXPECT_EQ(act["host"].empty(), false) << line;
    acts.push_back(absl::StrCat(std::string(act["principal"]), " ", std::string(act["role"]), " ",
                                std::string(act["call"])));
    if (act["call"] == "/tune.v1.JobService/CancelJob") {
      EXPECT_EQ(act["request"], absl::StrCat("job_id: ", sweep.job_id()));
    }
  }
  EXPECT_THAT(
      acts, testing::IsSupersetOf({std::string("alice submitter /tune.v1.SweepService/SubmitSweep"),
                                   std::string("alice submitter /tune.v1.JobService/CancelJob")}));
  EXPECT_THAT(acts, testing::Contains(HasSubstr("operator /tune.v1.TokenService/CreateToken")));
  EXPECT_THAT(acts, Not(testing::Contains(HasSubstr("ListTokens")))) << "it was refused";

  options.audit_log = dir_.path() + "/absent/audit.jsonl";
  EXPECT_THAT(Server::Start(options).status().message(), HasSubstr("there is no folder"));
}

TEST_F(ClientsTest, JobsOfTokensThatAreRevokedAlreadyAreCancelled) {
  Start(Options());
  const Client alice = Submitter("alice");
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(alice, {.items = "range(1, 400)"}, 1000, sweep).ok());
  Revoke("alice");
  v1::RevokeTokenRequest revoke;
  revoke.set_name("alice");
  v1::RevokeTokenResponse revoked;
  const auto call = [&] {
    return Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked)
        .error_code();
  };
  EXPECT_EQ(call(), StatusCode::NOT_FOUND);
  revoke.set_with_jobs(true);
  EXPECT_EQ(call(), StatusCode::OK);
  EXPECT_EQ(revoked.tokens_size(), 0);
  EXPECT_EQ(revoked.cancelled_job_ids_size(), 1);
  revoke.set_name("nobody");
  EXPECT_EQ(call(), StatusCode::NOT_FOUND);
}

TEST_F(ClientsTest, JobsAreCancelledIfTheRevocationCannotBeStored) {
  db::FaultyDisk disk;
  const absl::Cleanup stop = [&] { server_ = nullptr; };  // before the disk
  Start(Options());
  const Client alice = Submitter("alice");
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(alice, {.items = "range(1, 400)"}, 1000, sweep).ok());
  disk.write_error = ENOSPC;
  v1::RevokeTokenRequest revoke;
  revoke.set_name("alice");
  revoke.set_with_jobs(true);
  v1::RevokeTokenResponse revoked;
  const grpc::Status status =
      Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, revoke, &revoked);
  disk.write_error = 0;
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("of alice cancelled"));
  EXPECT_EQ(AwaitEnd(*operator_->sweeps, sweep.id()).state(), v1::JOB_STATE_CANCELLED);
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
  v1::ListJobsRequest list;
  list.set_with_results(true);
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(Call(*client.jobs, &v1::JobService::Stub::ListJobs, list, &jobs).ok());
  v1::GetSweepRequest get;
  get.set_sweep_id(sweep_id);
  v1::Sweep sweep;
  EXPECT_TRUE(Call(*client.sweeps, &v1::SweepService::Stub::GetSweep, get, &sweep).ok());
  v1::GetJobRequest get_job;
  get_job.set_job_id(sweep.job_id());
  v1::Job job;
  EXPECT_TRUE(Call(*client.jobs, &v1::JobService::Stub::GetJob, get_job, &job).ok());
  FollowJob(*client.jobs, sweep.job_id(), [&](const v1::JobEvent& event) {
    words += event.DebugString();
    return true;
  });
  grpc::ClientContext context;
  v1::ListTrialsRequest list_trials;
  list_trials.set_sweep_id(sweep_id);
  list_trials.set_with_reused(true);
  auto reader = client.sweeps->ListTrials(&context, list_trials);
  for (v1::Trial trial; reader->Read(&trial);) words += trial.DebugString();
  EXPECT_TRUE(reader->Finish().ok());
  return words + jobs.DebugString() + sweep.DebugString() + job.DebugString();
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
  EXPECT_EQ(Sweep(*operator_, {.items = "[1, 8]"}), "scale");
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
  EXPECT_THAT(refused.error_message(), AllOf(HasSubstr("tunectl job prune --owner alice"),
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
  Sweep(*operator_, {.items = "[1, 8]"});  // the newest stays for its number
  ASSERT_TRUE(Call(*operator_->server, &v1::ServerService::Stub::PruneJobs, prune, &pruned).ok());
  EXPECT_EQ(pruned.jobs(), 1u);
  EXPECT_EQ(Records().size(), 2u) << "what records stand on stays";
}

TEST_F(ClientsTest, AJobThatIsRefusedLeavesNoSources) {
  ServerOptions options = Options();
  options.clients.jobs_per_principal = 1;
  Start(options);
  const Client alice = Submitter("alice");
  v1::Sweep sweep;
  ASSERT_TRUE(Submit(alice, {.items = "range(1, 400)"}, 1000, sweep).ok());
  const auto kernel_bytes = [&] { return alice.StatusNow().stored(0).kernel_bytes(); };
  const uint64_t before = kernel_bytes();
  EXPECT_GT(before, 0u);
  for (const char* items : {"[1, 5]", "[1, 6]"}) {
    EXPECT_EQ(Submit(alice, {.items = items}, 1, sweep).error_code(),
              StatusCode::RESOURCE_EXHAUSTED);
  }
  v1::SubmitGateRequest gate;
  gate.set_kind(v1::GATE_KIND_HISTORY);
  gate.set_device("cpu");
  *gate.add_entries()->mutable_head() = ScaleKernel({.items = "[1, 7]"});
  v1::Job job;
  const grpc::Status refused = Call(*alice.gates, &v1::GateService::Stub::SubmitGate, gate, &job);
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
  EXPECT_EQ(kernel_bytes(), before);
}

TEST_F(ClientsTest, AKernelOfTheCatalogueIsNobodysSource) {
  Start(Options());
  const Client alice = Submitter("alice");
  v1::SubmitSweepRequest request;
  request.set_kernel_name("softmax");
  request.set_device("cpu");
  request.mutable_budget()->set_trials(1);
  v1::Sweep sweep;
  const grpc::Status submitted =
      Call(*alice.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
  ASSERT_TRUE(submitted.ok()) << submitted.error_message();
  EXPECT_EQ(alice.StatusNow().stored(0).kernel_bytes(), 0u);
  EXPECT_TRUE(CancelJob(*operator_->jobs, sweep.job_id()).ok());
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
  hostile.mutable_space()->set_definition_json(
      absl::StrCat("{\"tune_params\":{\"A\":[0,1]},\"restrictions\":[", constraints, "]}"));
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
