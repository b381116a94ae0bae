// SPDX-License-Identifier: Apache-2.0
#include "server/reflection_service.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/rpc/call_standing.h"
#include "server/rpc/grpc_status.h"
#include "server/supervision/acting_for.h"

namespace tune::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1alpha::ExtensionNumberResponse;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
using Response = grpc::reflection::v1alpha::ServerReflectionResponse;

constexpr size_t kRequestBytesMax = 4096;  // an answer repeats its request

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
             FileDescriptorResponse& files) {
  if (!added.insert(&file).second) return;
  FileDescriptorProto proto;
  file.CopyTo(&proto);
  files.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, files);
}

const FileDescriptor* FindFile(const Request& request) {
  if (request.has_file_by_filename()) return Pool().FindFileByName(request.file_by_filename());
  if (request.has_file_containing_symbol()) {
    return Pool().FindFileContainingSymbol(request.file_containing_symbol());
  }
  const auto& asked = request.file_containing_extension();
  const auto* const type = Pool().FindMessageTypeByName(asked.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* const extension =
      Pool().FindExtensionByNumber(type, asked.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

bool FindExtensions(const std::string& type_name, ExtensionNumberResponse& numbers) {
  const auto* const type = Pool().FindMessageTypeByName(type_name);
  if (type == nullptr) return false;
  numbers.set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
  return true;
}

Response Answer(const Request& request, const std::vector<std::string>& services) {
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  bool found = true;
  if (request.has_list_services()) {
    auto& list = *response.mutable_list_services_response();
    for (const std::string& service : services) list.add_service()->set_name(service);
  } else if (request.has_all_extension_numbers_of_type()) {
    found = FindExtensions(request.all_extension_numbers_of_type(),
                           *response.mutable_all_extension_numbers_response());
  } else if (const FileDescriptor* const file = FindFile(request); file != nullptr) {
    std::set<const FileDescriptor*> added;
    AddFile(*file, added, *response.mutable_file_descriptor_response());
  } else {
    found = false;
  }
  if (!found) {
    response.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
    response.mutable_error_response()->set_error_message("the daemon's contract has no such name");
  }
  return response;
}

}  // namespace

// Owns itself until gRPC is done with it.
class ReflectionService::Stream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  Stream(ReflectionService& service, const std::string& caller)
      : service_(service), caller_(caller), entered_(service.Enter(caller)) {
    if (entered_) {
      StartRead(&request_);
    } else {
      Finish(ToGrpc(absl::ResourceExhaustedError(
          absl::StrCat(kStreamsMax, " reflection streams of ", caller, " are open: close one"))));
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    const absl::Status standing = standing_ ? standing_() : absl::OkStatus();
    if (!standing.ok()) return Finish(ToGrpc(standing));
    if (request_.ByteSizeLong() > kRequestBytesMax) {
      return Finish(ToGrpc(absl::InvalidArgumentError(
          absl::StrCat("a reflection request of ", request_.ByteSizeLong(), " bytes; at most ",
                       kRequestBytesMax))));
    }
    response_ = Answer(request_, service_.services_);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    response_.Clear();
    StartRead(&request_);
  }
  void OnDone() override {
    if (entered_) service_.Leave(caller_);
    delete this;
  }

 private:
  ReflectionService& service_;
  const std::string caller_;
  const bool entered_;
  const Standing standing_ = CallStanding::Current();
  Request request_;
  Response response_;
};

grpc::ServerBidiReactor<Request, Response>* ReflectionService::ServerReflectionInfo(
    grpc::CallbackServerContext*) {
  return new Stream(*this, ActingFor::Current().name);
}

bool ReflectionService::Enter(const std::string& caller) {
  MutexLock lock(mutex_);
  int& streams = streams_[caller];
  if (streams == kStreamsMax) return false;
  ++streams;
  return true;
}

void ReflectionService::Leave(const std::string& caller) {
  MutexLock lock(mutex_);
  const auto streams = streams_.find(caller);
  if (--streams->second == 0) streams_.erase(streams);
}

}  // namespace tune::server
