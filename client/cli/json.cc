// SPDX-License-Identifier: Apache-2.0
#include "client/cli/json.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/escaping.h"
#include "google/protobuf/any.pb.h"
#include "tune/v1/trial.pb.h"

namespace tune::client {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Json ToJson(const Message& message);

Json ToJson(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kInteger:
      return value.integer();
    case v1::Value::kReal:
      return value.real();
    case v1::Value::kText:
      return value.text();
    case v1::Value::kBoolean:
      return value.boolean();
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

Json ToJson(const v1::Config& config) {
  Json object = Json::object();
  for (const v1::ConfigEntry& entry : config.entries()) {
    object[entry.param()] = ToJson(entry.value());
  }
  return object;
}

Json ToJson(const v1::Problem& problem) {
  Json dims = Json::object();
  for (const v1::DimValue& dim : problem.dims()) dims[dim.name()] = dim.value();
  return {{"dims", std::move(dims)}, {"dtype", problem.dtype()}};
}

// The message in it with its type's name, as "@type"; null if this program does not know the type.
Json ToJson(const google::protobuf::Any& any) {
  const size_t slash = any.type_url().rfind('/');
  const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
      any.type_url().substr(slash + 1));
  if (type == nullptr) return nullptr;
  const std::unique_ptr<Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  if (!any.UnpackTo(message.get())) return nullptr;
  Json object = {{"@type", type->full_name()}};
  object.update(ToJson(*message));
  return object;
}

// The element `i` of a repeated field, or the value of a single one.
struct FieldValue {
  const Message& message;
  const FieldDescriptor& field;
  int i = -1;

  Json ToJson() const;

 private:
  template <typename Single, typename Repeated>
  auto Get(Single single, Repeated repeated) const {
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    return i < 0 ? (reflection.*single)(message, &field)
                 : (reflection.*repeated)(message, &field, i);
  }
};

Json FieldValue::ToJson() const {
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Get(&R::GetInt32, &R::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return Get(&R::GetInt64, &R::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return Get(&R::GetUInt32, &R::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return Get(&R::GetUInt64, &R::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Get(&R::GetDouble, &R::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Get(&R::GetFloat, &R::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return Get(&R::GetBool, &R::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = Get(&R::GetEnumValue, &R::GetRepeatedEnumValue);
      const auto* value = field.enum_type()->FindValueByNumber(number);
      return value == nullptr ? Json(number) : Json(value->name());
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = Get(&R::GetString, &R::GetRepeatedString);
      const bool bytes = field.type() == FieldDescriptor::TYPE_BYTES;
      return bytes ? absl::Base64Escape(text) : text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const R& reflection = *message.GetReflection();
      return client::ToJson(i < 0 ? reflection.GetMessage(message, &field)
                                  : reflection.GetRepeatedMessage(message, &field, i));
    }
  }
  return nullptr;
}

Json ListToJson(const Message& message, const FieldDescriptor& field) {
  Json list = Json::array();
  const int count = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < count; ++i) list.push_back(FieldValue{message, field, i}.ToJson());
  return list;
}

// Sorted: a map of the wire has no order.
Json MapToJson(const Message& message, const FieldDescriptor& field) {
  std::map<std::string, Json> sorted;
  const int count = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < count; ++i) {
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
    const Json key = FieldValue{entry, *field.message_type()->map_key()}.ToJson();
    sorted[key.is_string() ? key.get<std::string>() : key.dump()] =
        FieldValue{entry, *field.message_type()->map_value()}.ToJson();
  }
  Json object = Json::object();
  for (auto& [key, value] : sorted) object[key] = std::move(value);
  return object;
}

// The message as a type whose JSON is not an object of its fields; null if it is of another type.
template <typename Type>
const Type* As(const Message& message) {
  return dynamic_cast<const Type*>(&message);
}

Json ToJson(const Message& message) {
  if (const auto* value = As<v1::Value>(message)) return ToJson(*value);
  if (const auto* config = As<v1::Config>(message)) return ToJson(*config);
  if (const auto* problem = As<v1::Problem>(message)) return ToJson(*problem);
  if (const auto* any = As<google::protobuf::Any>(message)) return ToJson(*any);
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  Json object = Json::object();
  for (const FieldDescriptor* field : fields) {
    object[field->name()] = field->is_map()        ? MapToJson(message, *field)
                            : field->is_repeated() ? ListToJson(message, *field)
                                                   : FieldValue{message, *field}.ToJson();
  }
  return object;
}

}  // namespace

std::string JsonText(const Message& message, Layout layout) {
  return ToJson(message).dump(layout == Layout::kIndented ? 1 : -1, ' ', /*ensure_ascii=*/true,
                              Json::error_handler_t::replace);
}

}  // namespace tune::client
