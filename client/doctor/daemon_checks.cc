// SPDX-License-Identifier: Apache-2.0
#include "client/doctor/daemon_checks.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "client/doctor/host_checks.h"
#include "client/report/format.h"

namespace tune::client {
namespace {

constexpr double kGiB = 1 << 30;
constexpr int64_t kDayMs = 24LL * 3600 * 1000;
constexpr int kCertificateDays = 14;

v1::CheckVerdict FailIf(bool fails, bool warns = false) {
  if (fails) return v1::CHECK_VERDICT_FAIL;
  return warns ? v1::CHECK_VERDICT_WARN : v1::CHECK_VERDICT_OK;
}

void CheckVersion(const v1::ServerStatus& server, const std::string& version,
                  v1::Diagnosis& diagnosis) {
  if (server.embedded()) {
    AddCheck(diagnosis, "daemon", v1::CHECK_VERDICT_OK,
             absl::StrCat("none runs; tunectl ", version, " works in its own process"));
    return;
  }
  AddCheck(diagnosis, "daemon", FailIf(false, server.version() != version),
           absl::StrCat("tunerd ", server.version(), ", process ", server.pid(), ", at ",
                        server.address(), "; tunectl ", version),
           "install one version of both, and restart tunerd: sweeps go on where they were");
}

// A compile needs 1 GiB free, see docs/tunerd.md, "When the host fails".
void CheckDisk(const v1::ServerStatus& server, v1::Diagnosis& diagnosis) {
  const auto free = static_cast<double>(server.traffic().state_free_bytes());
  AddCheck(diagnosis, "disk", FailIf(free < kGiB, free < 4 * kGiB),
           absl::StrCat(BytesText(free), " free for ", server.state_dir()),
           "free some: tunectl server cache clear, tunectl job prune --older-than DAYS, or a "
           "larger disk");
}

void CheckStore(const v1::ServerStatus& server, v1::Diagnosis& diagnosis) {
  AddCheck(diagnosis, "store", v1::CHECK_VERDICT_OK,
           absl::StrCat("schema ", server.schema_version(), ", ", server.store_engine(), ", ",
                        Counted(server.trial_count(), "trial"), ", ",
                        Counted(server.record_count(), "record")));
  for (const std::string& row : server.unreadable_rows()) {
    AddCheck(diagnosis, "store", v1::CHECK_VERDICT_FAIL, absl::StrCat("cannot be read: ", row),
             "look at it with sqlite3, or put a backup in place (docs/tunerd.md)");
  }
  if (server.unstored_revocation_count() > 0) {
    AddCheck(diagnosis, "store", v1::CHECK_VERDICT_FAIL,
             absl::StrCat(Counted(server.unstored_revocation_count(), "revoked token"),
                          " would be valid again after a restart"),
             "free some space on the disk before tunerd stops");
  }
}

// The walls that do not stand: "files: it could read ...".
std::string MissingWalls(const v1::WorkerWalls& walls) {
  std::string missing = walls.error();
  for (const v1::Wall& wall : walls.walls()) {
    if (wall.state() != v1::WALL_STATE_MISSING) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", wall.name(), ": ", wall.note());
  }
  return missing;
}

void CheckWallsOf(const v1::WorkerWalls& walls, bool weak_allowed, v1::Diagnosis& diagnosis) {
  const std::string missing = MissingWalls(walls);
  AddCheck(diagnosis, "walls", FailIf(!missing.empty() && !weak_allowed, !missing.empty()),
           absl::StrCat(walls.worker(), missing.empty() ? ": all stand" : ": missing ", missing),
           "use a kernel with Landlock (5.13 or later) and seccomp, and a container that allows "
           "both; or, if every kernel is trusted, tunerd --allow-weak-walls (docs/walls.md)");
}

void CheckFiles(const v1::Traffic& traffic, v1::Diagnosis& diagnosis) {
  if (traffic.open_files() < traffic.open_files_max() / 10 * 9) return;
  AddCheck(
      diagnosis, "files", v1::CHECK_VERDICT_WARN,
      absl::StrCat(traffic.open_files(), " files are open of at most ", traffic.open_files_max()),
      "raise the limit: LimitNOFILE= of the unit, ulimit -n of the shell");
}

void CheckCertificate(const v1::TlsCertificate& certificate, int64_t now_unix_ms,
                      v1::Diagnosis& diagnosis) {
  if (certificate.file().empty()) return;
  const int64_t days = (certificate.expires_unix_ms() - now_unix_ms) / kDayMs;
  AddCheck(
      diagnosis, "certificate",
      FailIf(certificate.expires_unix_ms() <= now_unix_ms,
             days < kCertificateDays || !certificate.problem().empty()),
      absl::StrCat(certificate.file(), " is valid until ", TimeText(certificate.expires_unix_ms()),
                   certificate.problem().empty() ? "" : "; a newer one is not used: ",
                   certificate.problem()),
      "put a new certificate and its key in place; tunerd takes them within a second");
}

void CheckDevice(const v1::Device& device, v1::Diagnosis& diagnosis) {
  const bool healthy = device.state() == v1::DEVICE_STATE_HEALTHY;
  const bool broken =
      device.state() == v1::DEVICE_STATE_QUARANTINED || device.state() == v1::DEVICE_STATE_SUSPECT;
  AddCheck(diagnosis, "device", FailIf(broken, !healthy),
           absl::StrCat(device.id(), " ", ToText(device.state()), device.name().empty() ? "" : ": ",
                        device.name(), device.driver().empty() ? "" : ", driver ", device.driver(),
                        device.compiler().empty() ? "" : ", ", device.compiler(),
                        device.message().empty() ? "" : ": ", device.message()),
           absl::StrCat("mend it, then tunectl device retry ", device.id()));
  if (!device.clock_note().empty()) {
    AddCheck(diagnosis, "clock", v1::CHECK_VERDICT_WARN,
             absl::StrCat(device.id(), ": ", device.clock_note()),
             "times are less exact until then (docs/measurement.md)");
  }
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    if (!ceiling.stale()) continue;
    AddCheck(diagnosis, "ceilings", v1::CHECK_VERDICT_WARN,
             absl::StrCat(device.id(), ": ", ceiling.name(), " is stale: ", ceiling.stale_reason()),
             absl::StrCat("tunectl device ceilings ", device.id()));
    break;
  }
}

}  // namespace

void CheckServer(const v1::ServerStatus& server, const std::string& version, int64_t now_unix_ms,
                 v1::Diagnosis& diagnosis) {
  CheckVersion(server, version, diagnosis);
  CheckDisk(server, diagnosis);
  CheckStore(server, diagnosis);
  CheckFiles(server.traffic(), diagnosis);
  CheckCertificate(server.certificate(), now_unix_ms, diagnosis);
}

void CheckWalls(const v1::ServerStatus& server, const v1::ListDevicesResponse& devices,
                v1::Diagnosis& diagnosis) {
  std::map<std::string, const v1::WorkerWalls*> workers;
  for (const v1::WorkerWalls& walls : server.walls()) workers.emplace(walls.worker(), &walls);
  for (const v1::Device& device : devices.devices()) {
    for (const v1::WorkerWalls& walls : device.walls()) workers.emplace(walls.worker(), &walls);
  }
  for (const auto& [name, walls] : workers) {
    CheckWallsOf(*walls, server.weak_walls_allowed(), diagnosis);
  }
}

void CheckDevices(const v1::ListDevicesResponse& devices, v1::Diagnosis& diagnosis) {
  std::set<std::string> languages;
  for (const v1::Device& device : devices.devices()) {
    CheckDevice(device, diagnosis);
    for (const v1::DeviceCompiler& compiler : device.compilers()) {
      if (compiler.message().empty() || !languages.insert(compiler.language()).second) continue;
      AddCheck(diagnosis, "compiler", v1::CHECK_VERDICT_WARN,
               absl::StrCat("none for ", compiler.language()), compiler.message());
    }
  }
}

}  // namespace tune::client
