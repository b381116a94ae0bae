// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/reply.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "server/worker/frame.h"

namespace tune::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using worker::v1::Artifact;
using worker::v1::WorkerReply;

constexpr uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Adds up the binaries and logs of an Artifact that goes on to the stream's limit.
bool AddCompiledBytes(CodedInputStream& stream, int64_t& bytes) {
  while (const uint32_t tag = stream.ReadTag()) {
    if (tag == BytesTag(Artifact::kBinaryFieldNumber) ||
        tag == BytesTag(Artifact::kLogFieldNumber)) {
      uint32_t size = 0;
      if (!stream.ReadVarint32(&size) || !stream.Skip(static_cast<int>(size))) return false;
      bytes += size;
    } else if (!WireFormatLite::SkipField(&stream, tag)) {
      return false;
    }
  }
  return stream.ConsumedEntireMessage();
}

}  // namespace

uint32_t ReplyFrameBytesMax(const worker::v1::WorkerRequest& request) {
  return request.has_compile() ? kFrameBytesMax : kReplyBytesMax;
}

bool ParseReply(const std::string& payload, WorkerReply& reply) {
  if (payload.size() > kReplyBytesMax) {
    CodedInputStream stream(reinterpret_cast<const uint8_t*>(payload.data()),
                            static_cast<int>(payload.size()));
    int64_t plain_bytes = 0;
    while (const uint32_t tag = stream.ReadTag()) {
      if (tag != BytesTag(WorkerReply::kCompiledFieldNumber)) {
        if (!WireFormatLite::SkipField(&stream, tag)) return false;
        continue;
      }
      uint32_t size = 0;
      if (!stream.ReadVarint32(&size)) return false;
      const CodedInputStream::Limit limit = stream.PushLimit(static_cast<int>(size));
      if (!AddCompiledBytes(stream, plain_bytes)) return false;
      stream.PopLimit(limit);
    }
    if (static_cast<int64_t>(payload.size()) - plain_bytes > kReplyBytesMax) return false;
  }
  return reply.ParseFromString(payload);
}

}  // namespace tune::server
