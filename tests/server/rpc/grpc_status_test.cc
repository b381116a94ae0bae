// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_status.h"

#include <gtest/gtest.h>

#include <string>

#include "server/rpc/error_detail.h"
#include "server/wire/utf8.h"

namespace tune::server {
namespace {

TEST(GrpcStatusTest, EveryStatusCodeKeepsItsNumber) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(ToGrpc(status).error_message(), code == 0 ? "" : "why");
  }
}

TEST(GrpcStatusTest, ALongErrorIsCutBetweenCharacters) {
  // gRPC takes 8 KiB of trailing metadata, in which a byte of this text has three characters.
  for (size_t shift = 0; shift < 3; ++shift) {
    std::string text(shift, 'x');
    while (text.size() < 100'000) text += "\u20ac";
    v1::ErrorDetail detail;
    detail.set_reason(v1::ERROR_REASON_TOO_LARGE);
    const absl::Status status = WithDetail(absl::InvalidArgumentError(text), detail);
    const std::string message = ToGrpc(status).error_message();
    EXPECT_LE(message.size(), 1024u);
    EXPECT_GE(message.size(), 1020u);
    EXPECT_EQ(message, text.substr(0, message.size() - 3) + "...");
    EXPECT_EQ(message, Utf8(message)) << "no character is cut";
    v1::ErrorStatus details;
    ASSERT_TRUE(details.ParseFromString(ToGrpc(status).error_details()));
    EXPECT_EQ(details.message(), message);
    EXPECT_EQ(details.details_size(), 1);
    detail.set_device(text);
    EXPECT_EQ(ToGrpc(WithDetail(absl::InvalidArgumentError("why"), detail)).error_details(), "");
  }
  EXPECT_EQ(ToGrpc(absl::InternalError(std::string(1024, 'x'))).error_message(),
            std::string(1024, 'x'));
}

}  // namespace
}  // namespace tune::server
