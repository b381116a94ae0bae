// SPDX-License-Identifier: Apache-2.0
// Every call of proto/, as protoc describes it.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace tune::server {

inline std::vector<const google::protobuf::MethodDescriptor*> CallsOf(
    google::protobuf::DescriptorPool& pool) {
  google::protobuf::FileDescriptorSet set;
  std::ifstream in(PROTO_SET, std::ios::binary);
  EXPECT_TRUE(set.ParseFromIstream(&in)) << PROTO_SET;
  std::vector<const google::protobuf::MethodDescriptor*> calls;
  for (const auto& described : set.file()) {
    const google::protobuf::FileDescriptor* file = pool.BuildFile(described);
    for (int i = 0; file != nullptr && i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        calls.push_back(file->service(i)->method(j));
      }
    }
  }
  return calls;
}

}  // namespace tune::server
