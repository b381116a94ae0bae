// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "tuner/device/cpu/usable_cpus.h"

namespace tune::cpu {
namespace {

constexpr int kCacheLevels = 8;
// Stands in if the system does not report it: about the share of one core.
constexpr int64_t kCacheBytesUnknown = 8 << 20;

std::string ModelName(const utsname& system) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const absl::string_view key =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(0, colon));
    if (key != "model name" && key != "Model" && key != "Hardware") continue;
    std::string name(absl::string_view(line).substr(colon + 1));
    absl::RemoveExtraAsciiWhitespace(&name);
    if (!name.empty()) return name;
  }
  return system.machine;
}

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

// "32K", "260M".
int64_t ParseCacheSize(absl::string_view text) {
  int64_t unit = 1;
  if (absl::ConsumeSuffix(&text, "K")) unit = 1 << 10;
  if (absl::ConsumeSuffix(&text, "M")) unit = 1 << 20;
  if (absl::ConsumeSuffix(&text, "G")) unit = 1 << 30;
  int64_t size = 0;
  return absl::SimpleAtoi(text, &size) && size > 0 ? size * unit : 0;
}

struct Cache {
  int level = 0;
  int64_t bytes = 0;
  std::string sharers;  // names the instance
};

Cache LastLevelCache(int cpu) {
  Cache last;
  for (int index = 0; index < kCacheLevels; ++index) {
    const std::string dir =
        absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/cache/index", index, "/");
    int level = 0;
    if (!absl::SimpleAtoi(ReadLine(dir + "level"), &level)) break;
    if (level <= last.level || ReadLine(dir + "type") == "Instruction") continue;
    last = {level, ParseCacheSize(ReadLine(dir + "size")), ReadLine(dir + "shared_cpu_list")};
  }
  return last;
}

// An id that is the same at every start and differs from other hosts'.
std::string Identify(const HostInfo& info, const utsname& system) {
  const std::string facts = absl::StrCat(
      info.device.name, "\n", system.nodename, "\n", system.machine, "\n", info.cpus.size(), "\n",
      info.device.memory_bytes >> 30, "\n", info.cache_bytes_all);
  return absl::StrCat("cpu-", Sha256Hex(facts).substr(0, 32));
}

}  // namespace

absl::StatusOr<HostInfo> ReadHostInfo() {
  HostInfo info;
  utsname system = {};
  uname(&system);
  info.cpus = UsableCpus();
  if (info.cpus.empty()) {
    return absl::FailedPreconditionError(
        "the system does not tell which processors this process may use");
  }
  DeviceInfo& device = info.device;
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  if (pages <= 0) return absl::FailedPreconditionError("the system does not tell its memory");
  device.name = absl::StrCat("cpu:", ModelName(system));
  device.target = "cpu";
  device.sm_count = static_cast<int64_t>(info.cpus.size());
  device.memory_bytes = pages * sysconf(_SC_PAGESIZE);
  std::set<std::string> instances;
  for (int cpu : info.cpus) {
    const Cache cache = LastLevelCache(cpu);
    if (cache.bytes == 0 || !instances.insert(cache.sharers).second) continue;
    device.l2_bytes = std::max(device.l2_bytes, cache.bytes);
    info.cache_bytes_all += cache.bytes;
  }
  if (info.cache_bytes_all == 0) {
    info.cache_bytes_all = kCacheBytesUnknown * device.sm_count;
  }
  device.max_shared_bytes = kSharedBytesMax;
  device.driver = system.release;
  device.clock = Clock::kHost;
  device.uuid = Identify(info, system);
  return info;
}

}  // namespace tune::cpu
