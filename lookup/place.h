// SPDX-License-Identifier: Apache-2.0
// Resolves the device of a query that names no device of this host, by the devices that the records
// know. tests/data/lookup_cases.json has cases.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tune::lookup {

// A device as the records know it.
struct SeenDevice {
  std::string target;
  int64_t newest_record_id = 0;  // 0: only shipped records are of it
};
using SeenDevices = std::map<std::string, SeenDevice>;  // by name

struct RecordedPlace {
  std::string device;
  std::string target;
  std::string note;  // why this device or target, if that is not plain
};

// Resolves a device's name, an id or a kind. An id or a kind ("cuda:1", "cuda", "cpu") gives the
// newest recorded device of that kind. An empty text gives the newest device that was measured
// here, a GPU before a CPU. Words of a GPU's name, such as "h200", suffice if they match only one
// GPU. An unknown name is taken for a GPU's, unless it is a CPU's.
RecordedPlace PlaceByRecords(const std::string& asked, const SeenDevices& seen);

}  // namespace tune::lookup
