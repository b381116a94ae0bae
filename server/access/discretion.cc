// SPDX-License-Identifier: Apache-2.0
#include "server/access/discretion.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/access/principal.h"
#include "server/supervision/acting_for.h"
#include "tune/v1/job.pb.h"

namespace tune::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Fields of these names have texts of compilers, kernels and checks.
constexpr std::array<absl::string_view, 4> kWords = {"message", "agreement_message", "invalid",
                                                     "worst"};

bool IsWords(const FieldDescriptor& field) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING || field.is_repeated()) return false;
  return std::find(kWords.begin(), kWords.end(), field.name()) != kWords.end() ||
         field.full_name() == "tune.v1.GateKernel.reason";
}

// A job that has not failed says what it does.
bool IsAtWork(const Message& message) {
  const FieldDescriptor* state = message.GetDescriptor()->FindFieldByName("state");
  if (state == nullptr || state->enum_type() != v1::JobState_descriptor()) return false;
  return message.GetReflection()->GetEnumValue(message, state) != v1::JOB_STATE_FAILED;
}

void Replace(const std::string& sentence, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  const bool at_work = IsAtWork(message);
  for (const FieldDescriptor* field : fields) {
    if (IsWords(*field)) {
      if (!at_work) reflection.SetString(&message, field, sentence);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Replace(sentence, *reflection.MutableRepeatedMessage(&message, field, i));
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Replace(sentence, *reflection.MutableMessage(&message, field));
    }
  }
}

}  // namespace

bool IsCaller(absl::string_view principal) {
  const Sharer& caller = ActingFor::Current();
  return caller.has_reserve || caller.name == principal;
}

bool SeesWordsOf(absl::string_view name_space) {
  if (name_space.empty() || ActingFor::Current().has_reserve) return true;
  return NameSpaceOf({.name = ActingFor::Current().name, .role = db::Role::kSubmitter}) ==
         name_space;
}

void HideWords(absl::string_view whose, Message& message) {
  Replace(absl::StrCat("what was said of it is for ", whose, " and operators"), message);
}

void HideUnlessSeen(absl::string_view name_space, Message& message) {
  if (!SeesWordsOf(name_space)) HideWords(name_space, message);
}

}  // namespace tune::server
