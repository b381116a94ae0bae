// SPDX-License-Identifier: Apache-2.0
// Every call of the wire contract has a line that says who may make it, and the documents have the
// same lines.
#include "server/access/access.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/access/principal.h"
#include "tests/docs_table.h"
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

TEST(AccessTest, EveryCallHasALine) {
  google::protobuf::DescriptorPool pool;
  const std::vector<const google::protobuf::MethodDescriptor*> calls = CallsOf(pool);
  for (const google::protobuf::MethodDescriptor* call : calls) {
    const std::optional<db::Role> role = RoleFor(PathOf(*call));
    EXPECT_TRUE(role.has_value()) << PathOf(*call) << " has no line in server/access/access.cc";
    std::set<const google::protobuf::Descriptor*> seen;
    if (HoldsSources(*call->input_type(), seen)) {
      EXPECT_GE(role, db::Role::kSubmitter) << PathOf(*call) << " brings kernels";
    }
  }
  EXPECT_GT(calls.size(), 50u);
}

TEST(AccessTest, WhatIsNotKnownIsNobodys) {
  EXPECT_EQ(RoleFor("/tune.v1.SweepService/Nope"), std::nullopt);
  EXPECT_EQ(RoleFor(""), std::nullopt);
}

TEST(AccessTest, TheDocumentsHaveTheSameTable) {
  std::map<std::string, db::Role> documented;
  for (const std::vector<std::string>& row : TableRows("docs/access.md")) {
    if (!absl::EndsWith(row[0], "Service")) continue;
    ASSERT_GE(row.size(), 4u) << row[0];
    for (int role = 1; role <= 3; ++role) {
      for (absl::string_view call : absl::StrSplit(row[static_cast<size_t>(role)], ", ")) {
        if (call.empty()) continue;
        documented[absl::StrCat("/tune.v1.", row[0], "/", call)] = static_cast<db::Role>(role);
      }
    }
  }
  google::protobuf::DescriptorPool pool;
  std::set<std::string> there;
  for (const google::protobuf::MethodDescriptor* call : CallsOf(pool)) {
    const std::string path = PathOf(*call);
    there.insert(path);
    ASSERT_TRUE(documented.contains(path)) << path << " is not in docs/access.md";
    EXPECT_EQ(RoleFor(path), documented[path]) << path;
  }
  for (const auto& [path, role] : documented) EXPECT_TRUE(there.contains(path)) << path;
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
