// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/access/principals.h"
#include "server/rpc/executor.h"
#include "tune/v1/access.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class TokenService : public v1::TokenService::CallbackService {
 public:
  // Cancels all jobs of a principal, until `deadline`, and lists them in the response.
  using CancelJobs = std::function<void(const std::string& owner, absl::Time deadline,
                                        v1::RevokeTokenResponse& response)>;

  TokenService(Tokens& tokens, const Principals& principals, CancelJobs cancel_jobs,
               Executors& executors)
      : tokens_(tokens),
        principals_(principals),
        cancel_jobs_(std::move(cancel_jobs)),
        executors_(executors) {}

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;

 private:
  Tokens& tokens_;
  const Principals& principals_;
  const CancelJobs cancel_jobs_;
  Executors& executors_;
};

}  // namespace tune::server
