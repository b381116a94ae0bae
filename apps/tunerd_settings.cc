// SPDX-License-Identifier: Apache-2.0
#include "apps/tunerd_settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <istream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "base/near_name.h"
#include "base/status_macros.h"
#include "server/state/paths.h"

namespace tune {
namespace {

using server::Limits;
using server::ServerOptions;

constexpr size_t kConfigBytesMax = 1 << 20;
const std::set<std::string>& ReloadableKeys() {
  static const std::set<std::string> keys = {
      "anonymous-readers",          "device-seconds-per-principal",
      "job-seconds-per-principal",  "jobs-per-principal",
      "kernel-bytes-per-principal", "log-level",
      "stored-bytes-per-principal", "tls-principal"};
  return keys;
}

// CLI11's reader of TOML, for a flat file of this program's keys. It refuses what CLI11 would read
// without a word otherwise than it is meant.
class SettingsFile : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::string text(kConfigBytesMax + 1, '\0');
    input.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(input.gcount()));
    if (text.size() > kConfigBytesMax) throw CLI::ConfigError("it has more than 1 MiB");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CheckLine(line);
    std::istringstream checked(text);
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(checked);
    std::set<std::string> keys;
    for (const CLI::ConfigItem& item : items) {
      if (!item.parents.empty()) {
        throw CLI::ConfigError(absl::StrCat("it has no sections, but [", item.parents[0], "]"));
      }
      if (!keys.insert(item.name).second) {
        throw CLI::ConfigError(
            absl::StrCat(item.name, " is given twice; a list is [\"a\", \"b\"]"));
      }
    }
    return items;
  }

 private:
  static void CheckLine(const std::string& line) {
    const size_t hash = line.find('#');
    if (hash != std::string::npos && std::count(line.begin(), line.begin() + hash, '"') % 2 != 0) {
      throw CLI::ConfigError(absl::StrCat("a value cannot have a #: ", line));
    }
  }
};

// Bytes, or "64MiB".
CLI::Option* AddBytes(CLI::App& app, const std::string& name, int64_t& bytes, int64_t least,
                      int64_t most, const std::string& help) {
  return app.add_option(name, bytes, help)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(least, most))
      ->capture_default_str()
      ->group("Bounds (docs/tunerd.md)");
}

template <typename T>
void AddCount(CLI::App& app, const std::string& name, T& count, T least, T most,
              const std::string& help) {
  app.add_option(name, count, help)
      ->check(CLI::Range(least, most))
      ->capture_default_str()
      ->group("Bounds (docs/tunerd.md)");
}

void AddLimits(CLI::App& app, Limits& limits) {
  constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
  AddCount(app, "--compile-workers", limits.compile_workers, 0, 1024,
           "Of each language; 0: one per hardware thread that has memory for one");
  AddBytes(app, "--compile-worker-bytes", limits.compile_worker_bytes, 64 * kMiB, 64 * kGiB,
           "Memory that is reckoned for a compile worker");
  AddBytes(app, "--binary-bytes", limits.binary_bytes, kKiB, Limits::kBinaryBytesMost,
           "Of one compiled variant");
  AddBytes(app, "--gate-binary-bytes", limits.gate_binary_bytes, kMiB, 64 * kGiB,
           "Of all variants that a gate run keeps");
  AddBytes(app, "--log-bytes", limits.log_bytes, kKiB, 4 * kMiB,
           "Of a compiler's log of a variant; the rest is cut");
  AddBytes(app, "--cache-bytes", limits.cache_bytes, kMiB, 1024 * kGiB,
           "Of the compile cache on disk; the least used goes");
  AddBytes(app, "--artifact-bytes", limits.artifact_bytes, kMiB, 1024 * kGiB,
           "Of the artifacts of records on disk; those that no snapshot names go");
  AddCount(app, "--queue", limits.unfinished_jobs, 1u, 100000u, "Jobs that wait or run");
  AddCount(app, "--operator-jobs", limits.operator_jobs, 0u, 100000u,
           "Places of the queue beyond --queue that operators alone have");
  AddCount(app, "--turn-seconds", limits.turn_seconds, 1u, 3600u,
           "Device time after which a sweep makes room for another principal's job that waits");
  AddCount(app, "--job-deaths", limits.job_deaths, 1u, 1000u,
           "A sweep fails once the daemon died so often while it ran");
  AddCount(app, "--snapshots", limits.snapshots, 1u, 10000u, "Kept besides those that are pinned");
  AddCount(app, "--known-trials", limits.known_trials, 1u, 10000000u,
           "That a sweep takes over from earlier ones");
  AddCount(app, "--remembered-results", limits.remembered_results, 1u, 10000000u,
           "By which a sweep knows equal machine code");
  AddBytes(app, "--connection-bytes", limits.connection_bytes, 16 * kMiB, 64 * kGiB,
           "Of all connections and calls of clients together");
  AddCount(app, "--watchers", limits.watchers, 1u, 100000u, "Of jobs, in all");
  AddCount(app, "--watchers-per-job", limits.watchers_per_job, 1u, 100000u, "Of one job");
}

// The octal text of a mode: "0660".
std::string ReadMode(const std::string& text, mode_t& mode) {
  constexpr mode_t kMost = 0777;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 8);
  if (text.empty() || *end != '\0' || value > kMost) return text + " is no mode: 0660, 0666";
  mode = static_cast<mode_t>(value);
  return "";
}

void AddClients(CLI::App& app, ServerOptions& options,
                std::vector<std::string>& certificate_roles) {
  constexpr char kGroup[] = "Who may do what (docs/access.md)";
  app.add_option("--submit-group", options.clients.submit_group,
                 "Group, by name or number, whose members may submit work at a unix socket; the "
                 "socket is made that group's. Others who may connect are readers")
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--socket-mode",
         [&options](const std::string& text) {
           const std::string wrong = ReadMode(text, options.socket_mode);
           if (!wrong.empty()) throw CLI::ValidationError("--socket-mode", wrong);
         },
         "Of unix sockets: who may connect. 0666 lets every user of the host read")
      ->default_str("0660")
      ->type_name("MODE")
      ->group(kGroup);
  app.add_option("--tls-principal", certificate_roles,
                 "NAME=ROLE: of clients whose certificate has the name: reader, submitter or "
                 "operator. *=ROLE: of all others with a certificate; without it, submitter. May "
                 "be given several times")
      ->type_name("NAME=ROLE")
      ->allow_extra_args(false)
      ->group(kGroup);
  app.add_option("--audit-log", options.audit_log,
                 "File that gets a line of JSON for each call of submitters and operators that "
                 "readers may not make: who did what; by default none")
      ->type_name("FILE")
      ->group(kGroup);
  AddCount(app, "--jobs-per-principal", options.clients.jobs_per_principal, 1u, 100000u,
           "Of a submitter, that wait or run");
  AddCount(app, "--device-seconds-per-principal", options.clients.device_seconds_per_principal, 0u,
           100'000'000u,
           "That a submitter's jobs may have a device within 24 hours, all together; 0: any time");
  AddCount(app, "--job-seconds-per-principal", options.clients.job_seconds_per_principal, 0u,
           100'000'000u,
           "Device time of one job of a submitter, and the largest budget of its sweeps; 0: any");
  AddBytes(app, "--kernel-bytes-per-principal", options.clients.kernel_bytes_per_principal, 1 << 20,
           int64_t{1} << 40, "Of the sources that a submitter's work keeps");
  AddBytes(app, "--stored-bytes-per-principal", options.clients.stored_bytes_per_principal, 1 << 20,
           int64_t{1} << 50,
           "Of all that a submitter's jobs keep on disk: sources, trials, samples, messages, "
           "artifacts");
  app.add_flag("--anonymous-readers", options.clients.anonymous_readers,
               "TCP clients with neither certificate nor token may look up and list")
      ->group(kGroup);
}

constexpr char kStateHelp[] =
    "Folder of the store and the compile cache; by default $TUNE_STATE_DIR, else "
    "$XDG_STATE_HOME/tunectl, else /var/lib/tunectl for root and ~/.local/state/tunectl for others";

void AddPlaces(CLI::App& app, ServerOptions& options) {
  app.add_option("--state-dir", options.state_dir, kStateHelp);
  app.add_option("--store", options.store,
                 "postgresql://USER@HOST:5432/DATABASE, which several hosts share "
                 "(docs/operations.md); its password is PGPASSWORD's or ~/.pgpass's. By default a "
                 "file in the state's folder")
      ->envname("TUNE_STORE")
      ->type_name("URL");
  app.add_option("--host-name", options.host_name,
                 "Name of this host among those that share the store; by default the system's");
  app.add_option("--snapshot-dir", options.snapshot_dir,
                 "Folder of the snapshots that jobs of this host read; by default in the state's")
      ->envname("TUNE_SNAPSHOT_DIR");
  app.add_option("--listen", options.addresses,
                 "unix:<path>, or <host>:<port> with TLS; may be given several times")
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--tls-cert", options.tls.certificate_file,
                 "Certificate chain, PEM; read again each second, and at SIGHUP");
  app.add_option("--tls-key", options.tls.key_file,
                 "Private key, PEM, that nobody else may read (chmod 600)");
  app.add_option("--tls-ca", options.tls.client_authority_file,
                 "Authority of clients' certificates, PEM: who shows one need have no token");
}

void AddTools(CLI::App& app, ServerOptions& options) {
  app.add_option("--include-root", options.include_roots,
                 "NAME=DIR: a folder of headers that kernels may include from, by include_roots of "
                 "their specs; may be given several times")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false);
  app.add_flag("--allow-weak-walls", options.allow_weak_walls,
               "Run kernels even where walls around workers are missing; for trusted kernels only");
  app.add_option("--triton-python", options.triton_python,
                 "A Python that has Triton; without it the first that is found")
      ->envname("TUNE_TRITON_PYTHON");
  app.add_option("--numpy-python", options.numpy_python,
                 "A Python that has NumPy; without it the first that is found")
      ->envname("TUNE_NUMPY_PYTHON");
}

void AddOperation(CLI::App& app, Settings& settings) {
  constexpr uint32_t kDrainSecondsMax = 24 * 3600;
  app.add_option("--log-level", settings.log_level, "debug, info, warn, error, off")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--log-format",
         [&settings](const std::string& format) { settings.log_json = format == "json"; },
         "text, or json: an object a line, with the principal, job and device that it is about")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
  app.add_flag("--log-json", settings.log_json, "The same as --log-format json");
  app.add_option("--web", settings.web_address,
                 "Serve a page (docs/page.md) at this address of the loopback: 127.0.0.1:7080");
  app.add_option("--metrics", settings.options.metrics,
                 "127.0.0.1:<port>, where a Prometheus of this host reads /metrics; by default "
                 "nowhere (docs/operations.md)")
      ->type_name("ADDRESS");
  app.add_option("--drain-seconds", settings.drain_seconds,
                 "Time that SIGTERM leaves to gates, comparisons and other jobs that cannot go on "
                 "later; sweeps stop at once and go on at the next start")
      ->check(CLI::Range(0u, kDrainSecondsMax))
      ->capture_default_str();
  app.config_formatter(std::make_shared<SettingsFile>());
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_config("--config", "",
                 "File of TOML with these flags as keys (docs/operations.md). A flag comes before "
                 "the file, the file before a variable")
      ->type_name("FILE");
  app.add_flag("--check-config", settings.check_config,
               "Check the flags, the file and what they name, and end: 0 if a daemon would start")
      ->configurable(false);
  app.set_version_flag("--version", TUNE_VERSION);
}

std::vector<std::string> KeysOf(const CLI::App& app) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_configurable()) keys.push_back(option->get_single_name());
  }
  return keys;
}

// CLI11's text of an error, with the file that it is in and the key that was meant.
absl::Status ErrorOf(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  absl::string_view key = text;
  if (absl::ConsumePrefix(&key, "INI was not able to parse ")) {
    text = absl::StrCat("there is no setting '", key, "'", DidYouMean(key, KeysOf(app)));
  }
  const CLI::Option* const file = app.get_config_ptr();
  const bool in_file = file->count() > 0 && error.get_name() == "ConfigError";
  return absl::InvalidArgumentError(
      absl::StrCat(in_file ? absl::StrCat(file->as<std::string>(), ": ") : "", text));
}

}  // namespace

absl::StatusOr<Settings> ReadSettings(int argc, const char* const* argv) {
  Settings settings{.options = {.addresses = {DefaultAddress()}}};
  std::vector<std::string> certificate_roles;
  CLI::App app("tunerd owns the GPUs of this host: it tunes kernels for tunectl and for jobs.");
  AddPlaces(app, settings.options);
  AddClients(app, settings.options, certificate_roles);
  app.add_flag("--drop-damaged-log", settings.options.drop_damaged_log,
               "Go on without the unreadable part of a damaged write-ahead log; a copy is kept");
  AddLimits(app, settings.options.limits);
  AddTools(app, settings.options);
  AddOperation(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return ErrorOf(app, error);
    settings.printed = true;
    app.exit(error);
    return settings;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->empty()) continue;
    settings.texts[option->get_single_name()] = absl::StrJoin(option->reduced_results(), "\n");
  }
  ASSIGN_OR_RETURN(settings.options.clients.certificates,
                   server::ParseCertificateRoles(certificate_roles));
  if (settings.options.host_name.empty()) {
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    settings.options.host_name = name;
  }
  if (settings.options.state_dir.empty()) {
    ASSIGN_OR_RETURN(settings.options.state_dir, server::DefaultStateDir());
  }
  return settings;
}

ChangedKeys Compare(const Settings& before, const Settings& now) {
  std::set<std::string> changed;
  for (const auto& [from, to] :
       {std::pair(&before.texts, &now.texts), std::pair(&now.texts, &before.texts)}) {
    for (const auto& [key, text] : *from) {
      const auto other = to->find(key);
      if (other == to->end() || other->second != text) changed.insert(key);
    }
  }
  ChangedKeys keys;
  for (const std::string& key : changed) {
    (ReloadableKeys().contains(key) ? keys.reloadable : keys.others).push_back(key);
  }
  return keys;
}

}  // namespace tune
