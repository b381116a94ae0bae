// SPDX-License-Identifier: Apache-2.0
#include "server/records/kept_index.h"

#include <google/protobuf/arena.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/records/record_convert.h"

namespace tune::server {
namespace {

// The version of the index's form: raised with each change.
constexpr int kForm = 1;

}  // namespace

std::string ToText(const IndexNote& note) {
  nlohmann::json devices = nlohmann::json::object();
  for (const auto& [name, device] : note.devices) {
    devices[name] = {device.target, device.newest_record_id};
  }
  return nlohmann::json{{"program", note.program},
                        {"store", note.store},
                        {"settled_sweep", note.settled_sweep},
                        {"devices", std::move(devices)},
                        {"kernels", note.kernels}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<IndexNote> ParseIndexNote(const std::string& text) {
  IndexNote note;
  try {  // the library tells in no other way that a member is missing
    const nlohmann::json json = nlohmann::json::parse(text);
    json.at("program").get_to(note.program);
    json.at("store").get_to(note.store);
    json.at("settled_sweep").get_to(note.settled_sweep);
    json.at("kernels").get_to(note.kernels);
    for (const auto& [name, device] : json.at("devices").items()) {
      note.devices[name] = {device.at(0).get<std::string>(), device.at(1).get<int64_t>()};
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("an index's note: ", error.what()));
  }
  return note;
}

std::string ProgramMark(const std::string& shipped) {
  return absl::StrCat(TUNE_VERSION, " ", kForm, " ", shipped);
}

lookup::RecordCodec WireCodec() {
  return {
      .encode = [](const lookup::Record& record) { return ToProto(record).SerializeAsString(); },
      .decode = [](absl::string_view bytes) -> absl::StatusOr<lookup::Record> {
        google::protobuf::Arena arena;  // a fifth faster than a message on the stack
        auto& proto = *google::protobuf::Arena::CreateMessage<v1::Record>(&arena);
        if (proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
          return FromProto(proto);
        }
        return absl::DataLossError("a record of the index cannot be read");
      }};
}

}  // namespace tune::server
