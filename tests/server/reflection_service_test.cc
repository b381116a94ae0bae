// SPDX-License-Identifier: Apache-2.0
// Tools without stubs learn a daemon's contract, within bounds on their streams.
#include "server/reflection_service.h"

#include <google/protobuf/descriptor.pb.h>

#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/access/clients_fixture.h"
#include "tune/v1/role.pb.h"

namespace tune::server {
namespace {

namespace reflection = grpc::reflection::v1alpha;

ptrdiff_t ThreadCount() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

class ReflectionServiceTest : public ClientsTest {
 protected:
  // No worker can start.
  ServerOptions Options() const {
    ServerOptions options = ClientsTest::Options();
    options.worker_dir = dir_.path();
    return options;
  }

  // An open stream.
  struct Stream {
    explicit Stream(reflection::ServerReflection::Stub& stub) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
      call = stub.ServerReflectionInfo(&context);
    }
    bool Ask(const reflection::ServerReflectionRequest& request) {
      return call->Write(request) && call->Read(&response);
    }
    bool ListServices() {
      reflection::ServerReflectionRequest request;
      request.set_list_services("");
      return Ask(request);
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriterInterface<reflection::ServerReflectionRequest,
                                                      reflection::ServerReflectionResponse>>
        call;
    reflection::ServerReflectionResponse response;
  };

  std::unique_ptr<reflection::ServerReflection::Stub> StubWith(const std::string& token) const {
    return reflection::ServerReflection::NewStub(
        ConnectByTls(server_->addresses()[0], authority_.file(), {}, token));
  }
};

constexpr int kStreams = 64;

TEST_F(ReflectionServiceTest, OpenStreamsTakeNoThreadsAndACallerHasFewOfThem) {
  Start(Options());
  const std::string token = MakeToken("rita", v1::PRINCIPAL_ROLE_READER).secret();
  const auto stub = StubWith(token);
  ASSERT_TRUE(Stream(*stub).ListServices());
  const ptrdiff_t threads = ThreadCount();
  std::deque<Stream> open;
  int refused = 0;
  for (int i = 0; i < kStreams; ++i) {
    if (open.emplace_back(*stub).ListServices()) continue;
    EXPECT_EQ(open.back().call->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
    open.pop_back();
    ++refused;
  }
  EXPECT_LE(open.size(), size_t{ReflectionService::kStreamsMax});
  EXPECT_GE(open.size(), size_t{ReflectionService::kStreamsMax - 1}) << "the first may still end";
  EXPECT_LT(ThreadCount(), threads + 8);
  const std::string other = MakeToken("eve", v1::PRINCIPAL_ROLE_READER).secret();
  EXPECT_TRUE(Stream(*StubWith(other)).ListServices()) << "others have streams of their own";
  open.front().call->WritesDone();
  EXPECT_EQ(open.front().call->Finish().error_code(), StatusCode::OK);
  bool answered = false;
  Await([&] { return answered = answered || Stream(*stub).ListServices(); });
}

TEST_F(ReflectionServiceTest, AStrangersStreamsAreRefusedAndTakeNoThreads) {
  Start(Options());
  const auto stub = StubWith("");
  Stream first(*stub);
  EXPECT_FALSE(first.ListServices());
  EXPECT_EQ(first.call->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  const ptrdiff_t threads = ThreadCount();
  std::deque<Stream> open;
  for (int i = 0; i < kStreams; ++i) open.emplace_back(*stub);
  EXPECT_FALSE(open.back().ListServices());
  EXPECT_LT(ThreadCount(), threads + 8);
  for (Stream& stream : open) stream.context.TryCancel();
}

TEST_F(ReflectionServiceTest, AStreamEndsWithItsToken) {
  Start(Options());
  const auto stub = StubWith(MakeToken("rita", v1::PRINCIPAL_ROLE_READER).secret());
  Stream stream(*stub);
  EXPECT_TRUE(stream.ListServices());
  Revoke("rita");
  EXPECT_FALSE(stream.ListServices());
  EXPECT_EQ(stream.call->Finish().error_code(), StatusCode::UNAUTHENTICATED);
}

TEST_F(ReflectionServiceTest, AnswersWhatToolsAsk) {
  Start(Options());
  const auto stub = reflection::ServerReflection::NewStub(server_->InProcessChannel());
  Stream stream(*stub);
  ASSERT_TRUE(stream.ListServices());
  std::vector<std::string> names;
  for (const auto& service : stream.response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"tune.v1.SweepService", "tune.v1.TokenService",
                                            "grpc.reflection.v1alpha.ServerReflection"}));

  reflection::ServerReflectionRequest request;
  request.set_file_containing_symbol("tune.v1.SweepService.SubmitSweep");
  ASSERT_TRUE(stream.Ask(request));
  const auto& files = stream.response.file_descriptor_response().file_descriptor_proto();
  ASSERT_GT(files.size(), 3) << "and all that it imports";
  google::protobuf::FileDescriptorProto file;
  ASSERT_TRUE(file.ParseFromString(files[0]));
  EXPECT_EQ(file.name(), "tune/v1/sweep.proto");

  request.set_file_by_filename("tune/v1/role.proto");
  ASSERT_TRUE(stream.Ask(request));
  EXPECT_EQ(stream.response.file_descriptor_response().file_descriptor_proto_size(), 2);

  request.set_all_extension_numbers_of_type("google.protobuf.MethodOptions");
  ASSERT_TRUE(stream.Ask(request));
  EXPECT_THAT(stream.response.all_extension_numbers_response().extension_number(),
              testing::Contains(v1::kRoleFieldNumber));

  request.mutable_file_containing_extension()->set_containing_type("google.protobuf.MethodOptions");
  request.mutable_file_containing_extension()->set_extension_number(v1::kRoleFieldNumber);
  ASSERT_TRUE(stream.Ask(request));
  EXPECT_EQ(stream.response.file_descriptor_response().file_descriptor_proto_size(), 2);

  request.set_file_containing_symbol("tune.v1.Nothing");
  ASSERT_TRUE(stream.Ask(request));
  EXPECT_EQ(stream.response.error_response().error_code(), StatusCode::NOT_FOUND);

  request.set_file_containing_symbol(std::string(5000, 'x'));
  EXPECT_FALSE(stream.Ask(request));
  EXPECT_EQ(stream.call->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tune::server
