// SPDX-License-Identifier: Apache-2.0
// Makes requests of any call from choices, which come from a fuzzer or from a random generator. The
// descriptors of the wire contract say what fields there are; values are drawn from what such a
// field has in practice, from limits, and from nonsense, so that many requests get past the first
// check.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tune::server {

// An endless row of choices: the given bytes first, then those of a generator that they seed.
class Choices {
 public:
  Choices(const uint8_t* bytes, size_t size);

  // Below `count`. REQUIRES: count > 0.
  uint64_t Below(uint64_t count) { return Word() % count; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }
  uint64_t Word();

 private:
  const uint8_t* bytes_;
  size_t left_;
  uint64_t state_;
};

class RequestMaker {
 public:
  explicit RequestMaker(Choices& choices) : choices_(choices) {}

  // A request of this type, on the wire.
  std::string Make(const google::protobuf::Descriptor& type);

 private:
  void Fill(google::protobuf::Message& message, int depth);
  void SetField(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                int depth);
  uint64_t Integer();
  double Number();
  std::string Text(const std::string& field);

  Choices& choices_;
  google::protobuf::DynamicMessageFactory factory_;
  size_t fields_left_ = 0;
};

}  // namespace tune::server
