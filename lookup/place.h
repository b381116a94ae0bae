// SPDX-License-Identifier: Apache-2.0
// Which device a question is about that names none of the asker's host: what the records tell of
// it. The Python package has the same rule (client/python/src/tunectl/_resolve.py); both are held
// to tests/data/lookup_cases.json.
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

// Of a device's name, or of an id or a kind ("cuda:1", "cuda", "cpu"), which is the newest recorded
// device of that kind; empty: the newest that was measured here, a GPU before a CPU. Words of a
// GPU's name do, such as "h200", where they are of one alone. What is not known is a GPU, unless
// its name is a CPU's.
RecordedPlace PlaceByRecords(const std::string& asked, const SeenDevices& seen);

}  // namespace tune::lookup
