// SPDX-License-Identifier: Apache-2.0
// Calls of commands to their server: context, deadline, stub and status in one expression.
//
//   ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
//                    Call(session.Connect(Need::kRead), &v1::JobService::Stub::ListJobs, request));
//
// A command that may cancel its call makes the context itself, and a Connection::stub.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "client/cli/connection.h"
#include "client/connect/rpc.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tune::client {

inline constexpr std::chrono::milliseconds kCallTimeout = std::chrono::minutes(2);
// The most items that a List method returns in one page, and that a command lists.
inline constexpr uint32_t kPageMax = 1000;
inline constexpr uint32_t kListMax = 100000;
// For calls that compute in this process, for as long as that takes.
inline constexpr std::chrono::milliseconds kNoTimeout = std::chrono::milliseconds::max();

// The answer of `method`, or the daemon's error, with DEADLINE_EXCEEDED after `timeout`. An error
// of `connection` is returned as it is.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(const absl::StatusOr<Connection*>& connection,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const std::type_identity_t<Request>& request,
                              std::chrono::milliseconds timeout = kCallTimeout) {
  RETURN_IF_ERROR(connection.status());
  grpc::ClientContext context;
  if (timeout != kNoTimeout) SetDeadline(context, timeout);
  Stub stub((*connection)->channel());
  Response response;
  RETURN_IF_ERROR(FromGrpc((stub.*method)(&context, request, &response)));
  return response;
}

// The answer of a List method with `limit` items, or all if there are fewer: its pages, merged.
// `items` is the accessor of the response's list: &v1::ListJobsResponse::mutable_jobs.
template <typename Stub, typename Request, typename Response, typename Item>
absl::StatusOr<Response> CallPages(const absl::StatusOr<Connection*>& connection,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                const Request&, Response*),
                                   std::type_identity_t<Request> request, uint32_t limit,
                                   google::protobuf::RepeatedPtrField<Item>* (Response::*items)()) {
  Response all;
  uint32_t left = limit;
  do {
    request.set_limit(std::min(left, kPageMax));
    ASSIGN_OR_RETURN(Response page, Call(connection, method, request));
    left -= std::min(left, static_cast<uint32_t>((page.*items)()->size()));
    request.set_page_token(page.next_page_token());
    all.MergeFrom(page);
  } while (left > 0 && !request.page_token().empty());
  return all;
}

// Calls a method that answers with a stream, and each(message) for every message of it.
template <typename Stub, typename Request, typename Message, typename Each>
absl::Status CallStream(const absl::StatusOr<Connection*>& connection,
                        std::unique_ptr<grpc::ClientReader<Message>> (Stub::*method)(
                            grpc::ClientContext*, const Request&),
                        const std::type_identity_t<Request>& request, Each each,
                        std::chrono::milliseconds timeout = kCallTimeout) {
  RETURN_IF_ERROR(connection.status());
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  Stub stub((*connection)->channel());
  const auto reader = (stub.*method)(&context, request);
  for (Message message; reader->Read(&message);) each(message);
  return FromGrpc(reader->Finish());
}

}  // namespace tune::client
