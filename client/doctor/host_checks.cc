// SPDX-License-Identifier: Apache-2.0
#include "client/doctor/host_checks.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileMax = 64 << 10;
constexpr size_t kProcessesMax = 100'000;

// The first bytes of a file; empty if it cannot be read.
std::string ReadStart(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// The names in a folder; empty if it cannot be read.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error);
       !error && entry != fs::directory_iterator() && names.size() < kProcessesMax;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// The value of a line "NAME: value"; empty if there is none.
std::string ValueOf(const std::string& text, const std::string& name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (sides.first == name) return std::string(absl::StripAsciiWhitespace(sides.second));
  }
  return "";
}

int CountGpus(const std::string& root) {
  int gpus = 0;
  for (const std::string& slot : NamesIn(root + "/sys/bus/pci/devices")) {
    const std::string folder = absl::StrCat(root, "/sys/bus/pci/devices/", slot);
    gpus += absl::StartsWith(ReadStart(folder + "/vendor"), "0x10de") &&
            absl::StartsWith(ReadStart(folder + "/class"), "0x03");
  }
  return gpus;
}

// "580.159.04" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...".
std::string DriverVersion(const std::string& text) {
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\n"))) {
    const std::vector<std::string> parts = absl::StrSplit(word, '.');
    int major = 0;
    if (parts.size() >= 2 && absl::SimpleAtoi(parts[0], &major) && major >= 100) {
      return std::string(word);
    }
  }
  return "";
}

// Checks the driver. Returns its version; empty if there is none.
std::string CheckDriver(const std::string& root, v1::Diagnosis& diagnosis) {
  const std::string version = DriverVersion(ReadStart(root + "/proc/driver/nvidia/version"));
  const int gpus = CountGpus(root);
  if (version.empty() && gpus == 0) {
    AddCheck(diagnosis, "driver", v1::CHECK_VERDICT_OK,
             "no NVIDIA GPU and no driver: the CPU device works");
  } else if (version.empty()) {
    AddCheck(diagnosis, "driver", v1::CHECK_VERDICT_FAIL,
             absl::StrCat(gpus, " NVIDIA GPU(s), but no driver is loaded"),
             "install NVIDIA's driver, or load it: modprobe nvidia");
  } else if (!fs::exists(root + "/dev/nvidiactl")) {
    AddCheck(diagnosis, "driver", v1::CHECK_VERDICT_FAIL,
             absl::StrCat("driver ", version, ", but no /dev/nvidiactl"),
             "give the container its GPUs (docker run --gpus all), or run nvidia-modprobe");
  } else {
    AddCheck(diagnosis, "driver", v1::CHECK_VERDICT_OK, absl::StrCat("driver ", version));
  }
  return version;
}

// Whether a process has CAP_SYS_ADMIN or CAP_PERFMON.
bool MayCount(const std::string& status) {
  constexpr uint64_t kMayCount = (uint64_t{1} << 21) | (uint64_t{1} << 38);
  uint64_t capabilities = 0;
  return absl::SimpleHexAtoi(ValueOf(status, "CapEff"), &capabilities) &&
         (capabilities & kMayCount) != 0;
}

void CheckPrivilege(const HostView& host, v1::Diagnosis& diagnosis) {
  const std::string admin_only =
      ValueOf(ReadStart(host.root + "/proc/driver/nvidia/params"), "RmProfilingAdminOnly");
  const std::string status = ReadStart(absl::StrCat(host.root, "/proc/", host.counting, "/status"));
  if (admin_only == "0" || MayCount(status)) {
    AddCheck(diagnosis, "counters", v1::CHECK_VERDICT_OK,
             admin_only == "0" ? "the driver lets every user read hardware counters"
                               : "the driver lets this process read hardware counters");
    return;
  }
  AddCheck(diagnosis, "counters", v1::CHECK_VERDICT_WARN,
           "the driver reserves hardware counters for administrators: tunectl profile will fail",
           "run tunerd as root or with CAP_SYS_ADMIN (CAP_PERFMON from driver 565 on), or load the "
           "driver with NVreg_RestrictProfilingToAdminUsers=0 (/etc/modprobe.d)");
}

// The processes of this host by their names, which the kernel cuts after 15 characters.
std::multimap<std::string, std::string> Processes(const std::string& root) {
  std::multimap<std::string, std::string> processes;
  for (const std::string& name : NamesIn(root + "/proc")) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) continue;
    const std::string comm = ReadStart(absl::StrCat(root, "/proc/", name, "/comm"));
    processes.emplace(std::string(absl::StripAsciiWhitespace(comm)), name);
  }
  return processes;
}

struct Rival {
  const char* comm;
  const char* check;
  const char* finding;
  const char* advice;
};

constexpr char kPauseDcgm[] =
    "while you profile: dcgmi profile --pause, afterwards dcgmi profile --resume";
constexpr Rival kRivals[] = {
    {"nv-hostengine", "counters", "DCGM may hold the counters of all GPUs", kPauseDcgm},
    {"dcgm-exporter", "counters", "DCGM's exporter may hold the counters of all GPUs", kPauseDcgm},
    {"ncu", "counters", "Nsight Compute holds the counters", "wait for its end, or stop it"},
    {"nsys", "counters", "Nsight Systems may hold the counters", "wait for its end, or stop it"},
    {"nvidia-cuda-mps", "mps", "MPS is on: other processes share the GPUs, and times vary",
     "measure without it: echo quit | nvidia-cuda-mps-control"}};

void CheckRivals(const std::string& root, v1::Diagnosis& diagnosis) {
  const std::multimap<std::string, std::string> processes = Processes(root);
  for (const Rival& rival : kRivals) {
    std::vector<std::string> ids;
    const auto [first, last] = processes.equal_range(rival.comm);
    for (auto process = first; process != last; ++process) ids.push_back(process->second);
    if (ids.empty()) continue;
    AddCheck(diagnosis, rival.check, v1::CHECK_VERDICT_WARN,
             absl::StrCat(rival.finding, " (process ", absl::StrJoin(ids, ", "), ")"),
             rival.advice);
  }
  if (const char* enumeration = std::getenv("NVML_MPS_DEVICE_ENUMERATION");
      enumeration != nullptr && *enumeration == '1') {
    AddCheck(diagnosis, "mps", v1::CHECK_VERDICT_WARN,
             "NVML_MPS_DEVICE_ENUMERATION=1: the driver reports no clocks and no power",
             "start tunerd and tunectl without this variable");
  }
}

void CheckMig(const std::string& root, v1::Diagnosis& diagnosis) {
  std::vector<std::string> split;
  const std::string folder = root + "/proc/driver/nvidia/capabilities";
  for (const std::string& gpu : NamesIn(folder)) {
    for (const std::string& part : NamesIn(absl::StrCat(folder, "/", gpu, "/mig"))) {
      if (!absl::StartsWith(part, "gi")) continue;
      split.push_back(gpu);
      break;
    }
  }
  if (split.empty()) return;
  AddCheck(diagnosis, "mig", v1::CHECK_VERDICT_WARN,
           absl::StrCat("split by MIG: ", absl::StrJoin(split, ", "),
                        "; a part has no counters, and shares clocks and power with the others"),
           "measure on a whole GPU: nvidia-smi -mig 0 (as root, with the GPU idle)");
}

}  // namespace

void CheckHost(const HostView& host, v1::Diagnosis& diagnosis) {
  const std::string driver = CheckDriver(host.root, diagnosis);
  if (!driver.empty()) {
    CheckPrivilege(host, diagnosis);
    CheckRivals(host.root, diagnosis);
    CheckMig(host.root, diagnosis);
  }
  if (host.clock_is_free) {
    AddCheck(diagnosis, "time", v1::CHECK_VERDICT_WARN,
             "no time server sets the system's clock; certificates and tokens end by it",
             "start chrony or systemd-timesyncd on the host");
  } else {
    AddCheck(diagnosis, "time", v1::CHECK_VERDICT_OK, "a time server sets the system's clock");
  }
}

void AddCheck(v1::Diagnosis& diagnosis, const std::string& name, v1::CheckVerdict verdict,
              const std::string& finding, const std::string& advice) {
  v1::DoctorCheck& check = *diagnosis.add_checks();
  check.set_name(name);
  check.set_verdict(verdict);
  check.set_finding(finding);
  if (verdict != v1::CHECK_VERDICT_OK) check.set_advice(advice);
}

}  // namespace tune::client
