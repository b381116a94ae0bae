// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/access/principals.h"
#include "server/rpc/executor.h"
#include "tune/v1/access.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class TokenService : public v1::TokenService::CallbackService {
 public:
  TokenService(Tokens& tokens, const Principals& principals, Executors& executors)
      : tokens_(tokens), principals_(principals), executors_(executors) {}

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
  Executors& executors_;
};

}  // namespace tune::server
