// SPDX-License-Identifier: Apache-2.0
// Every call of the wire contract has a line that says what it needs.
#include "server/rpc/access.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

// All of proto/, as protoc describes it.
std::vector<const google::protobuf::FileDescriptor*> Files(google::protobuf::DescriptorPool& pool) {
  google::protobuf::FileDescriptorSet set;
  std::ifstream in(PROTO_SET, std::ios::binary);
  EXPECT_TRUE(set.ParseFromIstream(&in)) << PROTO_SET;
  std::vector<const google::protobuf::FileDescriptor*> files;
  for (const auto& file : set.file()) files.push_back(pool.BuildFile(file));
  return files;
}

// Does a message hold a kernel's sources, somewhere?
bool HoldsSources(const google::protobuf::Descriptor& message,
                  std::set<const google::protobuf::Descriptor*>& seen) {
  if (message.full_name() == "tune.v1.KernelSource") return true;
  if (!seen.insert(&message).second) return false;
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::Descriptor* inner = message.field(i)->message_type();
    if (inner != nullptr && HoldsSources(*inner, seen)) return true;
  }
  return false;
}

TEST(AccessTest, EveryCallHasALine) {
  google::protobuf::DescriptorPool pool;
  int calls = 0;
  for (const google::protobuf::FileDescriptor* file : Files(pool)) {
    ASSERT_NE(file, nullptr);
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto& method = *file->service(i)->method(j);
        const std::string path =
            absl::StrCat("/", file->service(i)->full_name(), "/", method.name());
        ++calls;
        const std::optional<Needs> needs = NeedsOf(path);
        EXPECT_TRUE(needs.has_value()) << path << " has no line in server/rpc/access.cc";
        std::set<const google::protobuf::Descriptor*> seen;
        if (HoldsSources(*method.input_type(), seen)) {
          EXPECT_EQ(needs, Needs::kTrust) << path << " brings kernels";
        }
      }
    }
  }
  EXPECT_GT(calls, 30);
}

TEST(AccessTest, WhatIsNotKnownNeedsNothingThatIsKnown) {
  EXPECT_EQ(NeedsOf("/tune.v1.SweepService/Nope"), std::nullopt);
  EXPECT_EQ(NeedsOf(""), std::nullopt);
  EXPECT_EQ(NeedsOf("/grpc.health.v1.Health/Check"), Needs::kReading);
}

}  // namespace
}  // namespace tune::server
