// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_status.h"

#include <cstddef>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/wire/utf8.h"
#include "tune/v1/error.pb.h"

namespace tune::server {
namespace {

constexpr size_t kBytesMax = 1024;
constexpr absl::string_view kCut = "...";

// Cuts a message between two characters.
std::string Shortened(absl::string_view message) {
  if (message.size() <= kBytesMax) return std::string(message);
  size_t end = kBytesMax - kCut.size();
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(message.substr(0, end), kCut);
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::ErrorStatus details;
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    if (payload.size() > kBytesMax) return;
    details.add_details()->set_type_url(std::string(type));
    details.mutable_details()->rbegin()->set_value(std::string(payload));
  });
  const std::string message = Shortened(status.message());
  const auto code = static_cast<grpc::StatusCode>(status.code());
  if (details.details().empty()) return grpc::Status(code, message);
  details.set_code(code);
  details.set_message(Utf8(message));
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace tune::server
