// SPDX-License-Identifier: Apache-2.0
// The server as a process meets it: starting, stopping, addresses, and what needs no device.
#include "server/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "client/connect/rpc.h"
#include "db/store.h"
#include "tests/server/test_server.h"

namespace tune::server {
namespace {

using testing::HasSubstr;

class ServerTest : public testing::Test {
 protected:
  ServerTest() { (void)StartLog("error", LogFormat::kText); }

  ServerOptions Options() const {
    return {.state_dir = dir_.path() + "/state",
            .addresses = {"unix:" + dir_.path() + "/d.sock"},
            .worker_dir = TUNE_BIN_DIR,
            .limits = {.compile_workers = 1}};
  }
  std::shared_ptr<grpc::Channel> Connect() const {
    return grpc::CreateChannel(Options().addresses[0], grpc::InsecureChannelCredentials());
  }

  TempDir dir_;
};

TEST_F(ServerTest, AnswersOnItsSocketWhichIsPrivate) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  Stubs stubs(Connect());
  v1::ServerStatus status;
  ASSERT_TRUE(
      Call(*stubs.server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
          .ok());
  EXPECT_FALSE(status.version().empty());
  EXPECT_EQ(status.pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(status.state_dir(), Options().state_dir);
  EXPECT_EQ(status.address(), Options().addresses[0]);
  EXPECT_FALSE(status.embedded());
  EXPECT_EQ(status.compile_workers(), 1u);
  EXPECT_GT(status.resident_bytes(), 1u << 20);
  EXPECT_GE(status.schema_version(), 1u);

  struct stat state;
  ASSERT_EQ(stat((dir_.path() + "/d.sock").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0660u);
  ASSERT_EQ(stat(Options().state_dir.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
}

TEST_F(ServerTest, AStateFolderHasOneServer) {
  auto first = Server::Start(Options());
  ASSERT_TRUE(first.ok()) << first.status();
  ServerOptions options = Options();
  options.addresses = {};
  EXPECT_TRUE(absl::IsFailedPrecondition(Server::Start(options).status()));
  first->reset();
  EXPECT_TRUE(Server::Start(options).ok()) << "free again";
}

TEST_F(ServerTest, ASocketHasOneServer) {
  auto first = Server::Start(Options());
  ASSERT_TRUE(first.ok()) << first.status();
  ServerOptions options = Options();
  options.state_dir = dir_.path() + "/other";
  EXPECT_TRUE(absl::IsFailedPrecondition(Server::Start(options).status()));
  Stubs stubs(Connect());
  v1::ServerStatus status;
  EXPECT_TRUE(
      Call(*stubs.server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
          .ok())
      << "the first one is still there";
}

TEST_F(ServerTest, TcpWithoutTlsIsRefused) {
  ServerOptions options = Options();
  options.addresses = {"127.0.0.1:0"};
  EXPECT_TRUE(absl::IsInvalidArgument(Server::Start(options).status()));
  EXPECT_NE(access(options.state_dir.c_str(), F_OK), 0) << "before anything is opened or tried";
}

TEST_F(ServerTest, EmbeddedListensNowhere) {
  ServerOptions options = Options();
  options.addresses = {};
  options.embedded = true;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->addresses().empty());
  Stubs stubs((*server)->InProcessChannel());
  v1::ServerStatus status;
  ASSERT_TRUE(
      Call(*stubs.server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
          .ok());
  EXPECT_TRUE(status.embedded());
}

// One message each way, by name, as tools do that know no stubs.
std::string RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                    const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  if (!await()) return "no call";
  const grpc::Slice slice(request);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  if (!await()) return "no write";
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  if (!await()) return "no reply";
  call->WritesDone(nullptr);
  await();
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  std::vector<grpc::Slice> slices;
  (void)reply.Dump(&slices);
  std::string text;
  for (const grpc::Slice& part : slices) {
    text.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return text;
}

TEST_F(ServerTest, ParsesTheKernelsThatItIsAskedAboutAlone) {
  const auto knows_rope = [this](StoreUse use, std::vector<std::string> named) {
    ServerOptions options = Options();
    options.addresses.clear();
    options.embedded = true;
    options.store_use = use;
    options.kernels = std::move(named);
    auto server = Server::Start(options);
    Stubs stubs(server.value()->InProcessChannel());
    v1::GetKernelRequest request;
    request.set_name("rope");
    v1::Kernel kernel;
    return Call(*stubs.kernels, &v1::KernelService::Stub::GetKernel, request, &kernel).ok();
  };
  EXPECT_TRUE(knows_rope(StoreUse::kNone, {}));
  EXPECT_FALSE(knows_rope(StoreUse::kNone, {"softmax"}));
  EXPECT_TRUE(knows_rope(StoreUse::kNone, {"softmax", "rope"}));
  EXPECT_TRUE(knows_rope(StoreUse::kNone, {"alice/softmax"})) << "its error lists what there is";
  EXPECT_FALSE(knows_rope(StoreUse::kRead, {"softmax"})) << "there is no store yet";
  EXPECT_FALSE(knows_rope(StoreUse::kRead, {"softmax"}));
  EXPECT_TRUE(knows_rope(StoreUse::kOwn, {"softmax"})) << "jobs may be of any";
}

TEST_F(ServerTest, HealthAndReflectionAreOn) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(RawCall(Connect(), "/grpc.health.v1.Health/Check", ""), "\x08\x01") << "SERVING";
  // list_services: ""
  const std::string services =
      RawCall(Connect(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\0", 2));
  for (const char* name : {"Sweep", "Kernel", "Device", "Record", "Server"}) {
    EXPECT_NE(services.find(absl::StrCat("tune.v1.", name, "Service")), std::string::npos) << name;
  }
}

// Eight params of 300 values: seconds of work and 100 MiB, if it were done eight times at once.
v1::DescribeSpaceRequest HugeSpace() {
  v1::DescribeSpaceRequest request;
  request.mutable_space()->set_definition_json(
      R"json({"parameters": {"A": "range(1, 301)", "B": "range(1, 301)", "C": "range(1, 301)",
                         "D": "range(1, 301)", "E": "range(1, 301)", "F": "range(1, 301)",
                         "G": "range(1, 301)", "H": "range(1, 301)"},
          "constraints": ["A * B * C % 1009 + D * E * F % 1013 < G * H % 17 * 9"]})json");
  return request;
}

TEST_F(ServerTest, AnswersWhileHugeSpacesAreFoundAndDropsThemWithTheirClients) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  Stubs stubs(Connect());
  constexpr int kAtOnce = 8;
  grpc::ClientContext contexts[kAtOnce];
  grpc::Status ends[kAtOnce];
  std::vector<std::thread> callers;
  std::atomic<int> left = kAtOnce;
  for (int i = 0; i < kAtOnce; ++i) {
    callers.emplace_back([&, i] {
      v1::DescribeSpaceResponse response;
      ends[i] = stubs.kernels->DescribeSpace(&contexts[i], HugeSpace(), &response);
      --left;
    });
  }
  v1::ServerStatus status;
  v1::LookupRequest lookup;
  lookup.set_kernel_name("softmax");
  lookup.set_device("cpu");
  v1::LookupResponse found;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        Call(*stubs.server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
            .ok());
    ASSERT_TRUE(Call(*stubs.records, &v1::RecordService::Stub::Lookup, lookup, &found).ok());
  }
  EXPECT_GT(left, 0) << "or it was answered after them";
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& caller : callers) caller.join();
  int cancelled = 0;
  for (const grpc::Status& end : ends) {
    cancelled += end.error_code() == grpc::StatusCode::CANCELLED ? 1 : 0;
    // Without its constraint, which no diagram holds, it is too large.
    EXPECT_TRUE(end.error_code() == grpc::StatusCode::CANCELLED ||
                end.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
        << end.error_message();
  }
  EXPECT_GT(cancelled, 0);
  // The solver is free: another large space need not wait for eight that nobody wants.
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(5)));
  v1::DescribeSpaceRequest sum = HugeSpace();
  sum.mutable_space()->set_definition_json(absl::StrReplaceAll(
      sum.space().definition_json(),
      {{"A * B * C % 1009 + D * E * F % 1013 < G * H % 17 * 9", "A+B+C+D+E+F+G+H < 600"}}));
  v1::DescribeSpaceResponse response;
  const grpc::Status end = stubs.kernels->DescribeSpace(&context, sum, &response);
  EXPECT_TRUE(end.ok()) << end.error_message();
  EXPECT_TRUE(response.exact());
}

// A key and a certificate that vouches for itself.
struct KeyPair {
  std::string key;
  std::string certificate;
};

KeyPair MakeKeyPair(const std::string& folder) {
  KeyPair pair{folder + "/key.pem", folder + "/certificate.pem"};
  const std::string command = absl::StrCat(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
      "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout ",
      pair.key, " -out ", pair.certificate, " 2>/dev/null");
  EXPECT_EQ(system(command.c_str()), 0);
  return pair;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_F(ServerTest, TcpUnderTlsAsksWhoItIs) {
  const auto [key, certificate] = MakeKeyPair(dir_.path());
  ServerOptions options = Options();
  options.addresses = {"127.0.0.1:0"};
  options.tls = {
      .certificate_file = certificate, .key_file = key, .client_authority_file = certificate};
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_NE((*server)->addresses()[0], "127.0.0.1:0") << "the port that was taken";

  grpc::SslCredentialsOptions tls{.pem_root_certs = TextOf(certificate)};
  v1::ServerStatus status;
  Stubs nobody(grpc::CreateChannel("ipv4:" + (*server)->addresses()[0], grpc::SslCredentials(tls)));
  EXPECT_EQ(
      Call(*nobody.server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
          .error_code(),
      grpc::StatusCode::UNAUTHENTICATED);
  tls.pem_private_key = TextOf(key);
  tls.pem_cert_chain = TextOf(certificate);
  Stubs known(grpc::CreateChannel("ipv4:" + (*server)->addresses()[0], grpc::SslCredentials(tls)));
  EXPECT_TRUE(
      Call(*known.server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
          .ok());
}

TEST_F(ServerTest, AnOperatorEmptiesTheCompileCache) {
  const std::string folder = Options().state_dir + "/compile-cache/ab";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/cdef") << std::string(1000, 'x');
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  Stubs stubs(Connect());
  v1::ClearCompileCacheResponse cleared;
  const auto clear = [&] {
    return Call(*stubs.server, &v1::ServerService::Stub::ClearCompileCache,
                v1::ClearCompileCacheRequest(), &cleared);
  };
  ASSERT_TRUE(clear().ok());
  EXPECT_EQ(cleared.removed_bytes(), 1000u);
  EXPECT_FALSE(std::filesystem::exists(folder + "/cdef"));
  ASSERT_TRUE(clear().ok());
  EXPECT_EQ(cleared.removed_bytes(), 0u);
}

TEST_F(ServerTest, KernelsAreTakenFromClientsThatShowACertificate) {
  const auto [key, certificate] = MakeKeyPair(dir_.path());
  ServerOptions options = Options();
  options.addresses = {"127.0.0.1:0"};
  options.tls = {
      .certificate_file = certificate, .key_file = key, .client_authority_file = certificate};
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const grpc::SslCredentialsOptions tls{.pem_root_certs = TextOf(certificate),
                                        .pem_private_key = TextOf(key),
                                        .pem_cert_chain = TextOf(certificate)};
  Stubs known(grpc::CreateChannel("ipv4:" + (*server)->addresses()[0], grpc::SslCredentials(tls)));
  v1::SubmitSweepRequest request;
  request.mutable_kernel_source()->set_spec_text("nonsense {");
  v1::Sweep sweep;
  EXPECT_EQ(Call(*known.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT)
      << "it was looked at";
}

TEST_F(ServerTest, WhoIsNotKnownMayReadWhereTheOperatorSaysSo) {
  const auto [key, certificate] = MakeKeyPair(dir_.path());
  ServerOptions options = Options();
  options.addresses = {"127.0.0.1:0"};
  options.tls = {.certificate_file = certificate, .key_file = key};
  options.clients.anonymous_readers = true;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel =
      grpc::CreateChannel("ipv4:" + (*server)->addresses()[0],
                          grpc::SslCredentials({.pem_root_certs = TextOf(certificate)}));
  Stubs anybody(channel);
  v1::ListKernelsResponse kernels;
  EXPECT_TRUE(Call(*anybody.kernels, &v1::KernelService::Stub::ListKernels,
                   v1::ListKernelsRequest(), &kernels)
                  .ok());
  EXPECT_GT(kernels.kernels_size(), 0);
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(
      Call(*anybody.jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest(), &jobs).ok());
  EXPECT_FALSE(RawCall(channel, "/grpc.health.v1.Health/Check", "").empty());

  const auto expect_refused = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("you are anonymous, a reader"));
  };
  v1::SubmitSweepRequest request;
  *request.mutable_kernel_source() = ScaleKernel();
  v1::Sweep sweep;
  expect_refused(Call(*anybody.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep));
  v1::CheckKernelRequest check;
  check.set_kernel_name("softmax");
  grpc::ClientContext check_context;
  auto checks = anybody.kernels->CheckKernel(&check_context, check);
  v1::CheckKernelEvent checked;
  EXPECT_FALSE(checks->Read(&checked));
  expect_refused(checks->Finish());
  v1::Job job;
  expect_refused(Call(*anybody.devices, &v1::DeviceService::Stub::SubmitCeilings,
                      v1::SubmitCeilingsRequest(), &job));
}

TEST_F(ServerTest, StopIsQuickAndMayComeTwice) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Time start = absl::Now();
  (*server)->Stop(absl::Now() + absl::Milliseconds(300));
  EXPECT_LT(absl::Now() - start, absl::Seconds(30)) << "nothing waits for a device";
  (*server)->Stop(absl::Now());
}

TEST_F(ServerTest, UnreachableThingsAreNotFound) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  Stubs stubs((*server)->InProcessChannel());

  v1::Sweep sweep;
  v1::GetSweepRequest get;
  get.set_sweep_id(5);
  grpc::Status status = Call(*stubs.sweeps, &v1::SweepService::Stub::GetSweep, get, &sweep);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);

  grpc::ClientContext trials_context;
  v1::ListTrialsRequest list;
  list.set_sweep_id(5);
  v1::Trial trial;
  auto trials = stubs.sweeps->ListTrials(&trials_context, list);
  EXPECT_FALSE(trials->Read(&trial));
  EXPECT_EQ(trials->Finish().error_code(), grpc::StatusCode::NOT_FOUND);

  v1::GetKernelRequest get_kernel;
  get_kernel.set_name("no_such");
  v1::Kernel kernel;
  status = Call(*stubs.kernels, &v1::KernelService::Stub::GetKernel, get_kernel, &kernel);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(status.error_message().find("softmax"), std::string::npos) << status.error_message();
  std::optional<v1::ErrorDetail> detail = client::DetailOf(client::FromGrpc(status));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason(), v1::ERROR_REASON_NO_SUCH_KERNEL);
  EXPECT_EQ(detail->kernel(), "no_such");

  v1::LookupRequest lookup;
  lookup.set_kernel_name("no_such");
  v1::LookupResponse answer;
  status = Call(*stubs.records, &v1::RecordService::Stub::Lookup, lookup, &answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);

  v1::GetDeviceRequest get_device;
  get_device.set_id("cuda:99");
  v1::Device device;
  status = Call(*stubs.devices, &v1::DeviceService::Stub::GetDevice, get_device, &device);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  detail = client::DetailOf(client::FromGrpc(status));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason(), v1::ERROR_REASON_NO_SUCH_DEVICE);
  EXPECT_EQ(detail->device(), "cuda:99");
  EXPECT_NE(status.error_message().find("cpu"), std::string::npos) << status.error_message();
}

TEST_F(ServerTest, CatalogueKernelsAreDescribed) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  Stubs stubs((*server)->InProcessChannel());
  v1::ListKernelsResponse kernels;
  ASSERT_TRUE(Call(*stubs.kernels, &v1::KernelService::Stub::ListKernels, v1::ListKernelsRequest(),
                   &kernels)
                  .ok());
  ASSERT_GE(kernels.kernels_size(), 3);
  for (const v1::Kernel& listed : kernels.kernels()) {
    EXPECT_TRUE(listed.source_text().empty()) << "only from GetKernel";
    const bool triton = listed.spec().language() == v1::TRITON;
    EXPECT_EQ(listed.space_sizes().contains("cpu"), !triton) << listed.spec().name();
    for (const auto& [target, size] : listed.space_sizes()) {
      EXPECT_GT(size, 0u) << listed.spec().name() << " on " << target;
      EXPECT_GT(listed.default_configs().at(target).entries_size(), 0) << listed.spec().name();
    }
    EXPECT_TRUE(listed.space_sizes().contains("sm_90a")) << listed.spec().name();
    v1::GetKernelRequest get;
    get.set_name(listed.spec().name());
    v1::Kernel kernel;
    ASSERT_TRUE(Call(*stubs.kernels, &v1::KernelService::Stub::GetKernel, get, &kernel).ok());
    EXPECT_EQ(kernel.hash(), listed.hash());
    const char* mark = triton ? "@triton.jit" : "__global__";
    EXPECT_NE(kernel.source_text().find(mark), std::string::npos) << listed.spec().name();
    EXPECT_FALSE(kernel.readme().empty());
  }
}

TEST_F(ServerTest, LookupWithoutRecordsGivesTheDefault) {
  auto server = Server::Start(Options());
  ASSERT_TRUE(server.ok()) << server.status();
  Stubs stubs((*server)->InProcessChannel());
  v1::LookupRequest request;
  request.set_kernel_name("softmax");
  v1::LookupResponse answer;
  ASSERT_TRUE(Call(*stubs.records, &v1::RecordService::Stub::Lookup, request, &answer).ok());
  EXPECT_EQ(answer.match(), v1::MATCH_DEFAULT);
  EXPECT_GT(answer.config().entries_size(), 0);
  EXPECT_FALSE(answer.has_record());
  EXPECT_FALSE(answer.reason().empty());

  (*request.mutable_dims())["no_such_dim"] = 1;
  const grpc::Status status =
      Call(*stubs.records, &v1::RecordService::Stub::Lookup, request, &answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("no_such_dim"), std::string::npos);
}

// Clients that say nothing, or what is no HTTP/2.
TEST_F(ServerTest, SilentAndStrangeConnectionsStopNobody) {
  const std::unique_ptr<Server> server = Server::Start(Options()).value();
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un name{.sun_family = AF_UNIX};
    const std::string path = Options().addresses[0].substr(5);
    path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0) << i;
    const std::string garbage(i % 2 == 0 ? 0 : 1000, '\xff');
    (void)send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    strangers.push_back(fd);
  }
  v1::ServerStatus status;
  const auto stub = v1::ServerService::NewStub(Connect());
  const grpc::Status asked = Call(*stub, &v1::ServerService::Stub::GetStatus, {}, &status);
  EXPECT_TRUE(asked.ok()) << asked.error_message();
  EXPECT_EQ(status.bounds().connection_bytes(), uint64_t{256} << 20);
  for (const int fd : strangers) close(fd);
}

TEST_F(ServerTest, SaysWhichRowsItCannotRead) {
  (void)Server::Start(Options()).value();
  const std::string path = Options().state_dir + "/tune.db";
  {
    const auto store = db::Store::Open(path).value();
    ASSERT_TRUE(store->PutKernel({.hash = "hash", .name = "scale"}).ok());
    db::SweepRow sweep{.kernel_hash = "hash", .summary = "{ no summary"};
    sweep.job.device_id = "cpu";
    sweep.problem.dtype = DType::kF32;
    ASSERT_TRUE(store->AddSweep(sweep).ok());
  }
  const std::unique_ptr<Server> server = Server::Start(Options()).value();
  v1::ServerStatus status;
  const auto stub = v1::ServerService::NewStub(Connect());
  ASSERT_TRUE(Call(*stub, &v1::ServerService::Stub::GetStatus, {}, &status).ok());
  ASSERT_EQ(status.unreadable_rows_size(), 1);
  EXPECT_THAT(status.unreadable_rows(0), HasSubstr("sweep 1: "));
}

}  // namespace
}  // namespace tune::server
