// SPDX-License-Identifier: Apache-2.0
// Every method of the wire contract has a role, and docs/access.md has the table of them.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/access/guard.h"
#include "server/access/principal.h"
#include "tests/server/access/contract.h"

namespace tune::server {
namespace {

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

TEST(AccessTest, EveryMethodHasARole) {
  google::protobuf::DescriptorPool pool;
  const std::vector<const google::protobuf::MethodDescriptor*> calls = CallsOf(pool);
  for (const google::protobuf::MethodDescriptor* call : calls) {
    const std::optional<db::Role> role = RoleFor(*call);
    EXPECT_TRUE(role.has_value()) << PathOf(*call) << " needs `option (role)` in proto/";
    std::set<const google::protobuf::Descriptor*> seen;
    if (HoldsSources(*call->input_type(), seen)) {
      EXPECT_GE(role, db::Role::kSubmitter) << PathOf(*call) << " brings kernels";
    }
  }
  EXPECT_GT(calls.size(), 50u);
}

TEST(AccessTest, AMethodWithoutTheOptionHasNoRole) {
  google::protobuf::FileDescriptorProto file;
  file.set_name("new.proto");
  file.add_message_type()->set_name("Nothing");
  google::protobuf::ServiceDescriptorProto& service = *file.add_service();
  service.set_name("NewService");
  google::protobuf::MethodDescriptorProto& method = *service.add_method();
  method.set_name("Call");
  method.set_input_type("Nothing");
  method.set_output_type("Nothing");
  google::protobuf::DescriptorPool pool;
  EXPECT_EQ(RoleFor(*pool.BuildFile(file)->service(0)->method(0)), std::nullopt);
}

// A row for each service, with its methods by role.
std::string TableOf(const std::vector<const google::protobuf::MethodDescriptor*>& calls) {
  std::map<std::string, std::map<std::optional<db::Role>, std::vector<std::string>>> services;
  for (const google::protobuf::MethodDescriptor* call : calls) {
    services[call->service()->name()][RoleFor(*call)].push_back(call->name());
  }
  std::string table = "| service | reader | submitter | operator |\n| --- | --- | --- | --- |\n";
  for (auto& [service, methods] : services) {
    absl::StrAppend(&table, "| `", service, "` |");
    for (const db::Role role : {db::Role::kReader, db::Role::kSubmitter, db::Role::kOperator}) {
      absl::StrAppend(&table, " ", absl::StrJoin(methods[role], ", "), " |");
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

TEST(AccessTest, TheDocumentHasTheTableOfRoles) {
  google::protobuf::DescriptorPool pool;
  std::ifstream page(TUNE_PROJECT_DIR "/docs/access.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  const std::string table = TableOf(CallsOf(pool));
  EXPECT_TRUE(absl::StrContains(text, table)) << "docs/access.md needs this table:\n" << table;
}

TEST(PrincipalTest, NamesOfTokens) {
  for (const char* name : {"ci", "alice", "A.b_c@d-9"}) {
    EXPECT_TRUE(CheckPrincipalName(name).ok()) << name;
  }
  for (const std::string& name : {std::string(), std::string("1a"), std::string("a/b"),
                                  std::string("a b"), std::string("a\n"), std::string(65, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckPrincipalName(name))) << name;
  }
}

TEST(PrincipalTest, NameSpacesAreOneEach) {
  const auto space = [](const std::string& name) {
    return NameSpaceOf({.name = name, .role = db::Role::kSubmitter});
  };
  EXPECT_EQ(space("alice"), "alice");
  EXPECT_EQ(space("uid:1000"), "uid:1000");
  EXPECT_EQ(space("a/b"), "a%2fb");
  EXPECT_NE(space("a b"), space("a%20b"));
  EXPECT_EQ(NameSpaceOf({.name = "root", .role = db::Role::kOperator}), "");
  EXPECT_NE(NameSpaceOf({}), "") << "nobody has no part in what all share";
  EXPECT_EQ(NameIn("", "attention"), "attention");
  EXPECT_EQ(NameIn("alice", "attention"), "alice/attention");
}

TEST(PrincipalTest, WhoMayCancel) {
  const db::JobRow job{.id = 7, .owner = "alice"};
  EXPECT_TRUE(CheckMayCancel({.name = "alice", .role = db::Role::kSubmitter}, job).ok());
  EXPECT_TRUE(CheckMayCancel({.name = "root", .role = db::Role::kOperator}, job).ok());
  const absl::Status bob = CheckMayCancel({.name = "bob", .role = db::Role::kSubmitter}, job);
  EXPECT_TRUE(absl::IsPermissionDenied(bob));
  EXPECT_TRUE(absl::StrContains(bob.message(), "job 7 is alice's")) << bob;
  EXPECT_FALSE(CheckMayCancel({.role = db::Role::kSubmitter}, db::JobRow{}).ok())
      << "nobody's job is not nobody's to cancel";
}

}  // namespace
}  // namespace tune::server
