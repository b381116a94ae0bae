// SPDX-License-Identifier: Apache-2.0
// A daemon in this process, and clients of every role that make calls which a RequestMaker made up.
// After each the daemon must answer, must have called no fault its own, and must hold less memory
// than a bound. Both the test and the libFuzzer target drive it.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/server.h"
#include "tests/server/access/authority.h"
#include "tests/server/fuzz/request_maker.h"
#include "tests/server/temp_dir.h"

namespace tune::server {

class CallFuzzer {
 public:
  // The most that the process may have resident, in bytes.
  static constexpr int64_t kResidentBytesMax = int64_t{512} << 20;

  CallFuzzer();

  // Makes one call. Returns what is wrong; empty: nothing.
  std::string Run(Choices& choices);
  // How many calls ended with OK so far.
  uint64_t successes() const { return successes_; }
  uint64_t calls() const { return calls_made_; }

 private:
  // Opens channels_, with new tokens.
  void Connect();
  grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                    const std::vector<std::string>& requests, absl::Duration patience);
  std::string WhatIsWrong();

  TempDir dir_;
  const Authority authority_;
  google::protobuf::DescriptorPool pool_;
  std::vector<const google::protobuf::MethodDescriptor*> calls_;
  std::unique_ptr<Server> server_;
  // Of nobody, a reader, a submitter and an operator.
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  uint64_t successes_ = 0;
  uint64_t calls_made_ = 0;
};

}  // namespace tune::server
