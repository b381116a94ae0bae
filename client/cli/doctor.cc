// SPDX-License-Identifier: Apache-2.0
// tunectl doctor
//
// A driver, a disk or a daemon may hang. So the questions to a server are asked by processes of
// this program, which are killed at the deadline, and a check that got no answer says so.
#include <google/protobuf/util/json_util.h>
#include <sys/timex.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "base/child_process.h"
#include "base/status_macros.h"
#include "client/cli/command.h"
#include "client/doctor/daemon_checks.h"
#include "client/doctor/host_checks.h"
#include "client/report/terminal.h"

namespace tune::client {
namespace {

constexpr size_t kAnswerBytesMax = 16 << 20;

struct DoctorFlags {
  uint32_t timeout_seconds = 30;
};

// The flags before the command, as the variables that stand for them.
std::vector<std::string> EnvironmentOf(const Session& session) {
  const std::pair<const char*, const std::string&> variables[] = {
      {"TUNE_ADDRESS=", session.address},
      {"TUNE_DAEMON_USER=", session.daemon_user},
      {"TUNE_TLS_CA=", session.tls.ca},
      {"TUNE_TLS_CERT=", session.tls.certificate},
      {"TUNE_TLS_KEY=", session.tls.key},
      {"TUNE_TOKEN_FILE=", session.tls.token_file},
      {"TUNE_TRITON_PYTHON=", session.tools.triton_python},
      {"TUNE_NUMPY_PYTHON=", session.tools.numpy_python}};
  std::vector<absl::string_view> names;
  std::vector<std::string> given;
  for (const auto& [name, value] : variables) {
    if (value.empty()) continue;
    names.push_back(name);
    given.push_back(absl::StrCat(name, value));
  }
  return EnvironmentWithout(names, std::move(given));
}

// The answer of `tunectl WORDS... --json`; its error is the text that the command printed.
template <typename Message>
absl::StatusOr<Message> Ask(const Session& session, std::vector<std::string> words,
                            Deadline deadline) {
  words.push_back("--json");
  ASSIGN_OR_RETURN(
      const ChildResult result,
      RunChild({.program = "/proc/self/exe",
                .arguments = std::move(words),
                .environment = EnvironmentOf(session)},
               ChildErrors::kApart, {.deadline = deadline, .output_max = kAnswerBytesMax}));
  if (result.exit_code != kDone) {
    absl::string_view why = absl::StripAsciiWhitespace(result.errors);
    absl::ConsumePrefix(&why, "tunectl: ");
    return absl::UnavailableError(why.empty() ? absl::StrCat("it ended with ", result.exit_code)
                                              : std::string(why));
  }
  Message message;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(result.output, &message, options);
  if (parsed.ok()) return message;
  return absl::InternalError(absl::StrCat("its answer cannot be read: ", parsed.ToString()));
}

void AddUnanswered(v1::Diagnosis& diagnosis, const std::string& name, const absl::Status& status,
                   const DoctorFlags& flags) {
  if (absl::IsDeadlineExceeded(status)) {
    AddCheck(diagnosis, name, v1::CHECK_VERDICT_FAIL,
             absl::StrCat("no answer within ", flags.timeout_seconds, " s"),
             "the driver or the disk may hang: see dmesg and the daemon's log; --timeout waits "
             "longer");
    return;
  }
  AddCheck(diagnosis, name, v1::CHECK_VERDICT_FAIL, std::string(status.message()),
           "do as it says, then run tunectl doctor again");
}

bool ClockIsFree() {
  timex clock = {};
  return adjtimex(&clock) == TIME_ERROR;
}

v1::Diagnosis Diagnose(const Session& session, const DoctorFlags& flags) {
  const Deadline deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(flags.timeout_seconds);
  v1::Diagnosis diagnosis;
  const auto server = Ask<v1::ServerStatus>(session, {"server", "status"}, deadline);
  HostView host{.clock_is_free = ClockIsFree()};
  const std::string address = session.address.empty() ? DefaultAddress() : session.address;
  if (server.ok() && !server->embedded() && !SocketPath(address).empty()) {
    host.counting = absl::StrCat(server->pid());
  }
  CheckHost(host, diagnosis);
  if (!server.ok()) {
    AddUnanswered(diagnosis, "daemon", server.status(), flags);
    return diagnosis;
  }
  CheckServer(*server, TUNE_VERSION, absl::ToUnixMillis(absl::Now()), diagnosis);
  const auto devices = Ask<v1::ListDevicesResponse>(session, {"device", "list"}, deadline);
  CheckWalls(*server, devices.value_or(v1::ListDevicesResponse()), diagnosis);
  if (devices.ok()) {
    CheckDevices(*devices, diagnosis);
  } else {
    AddUnanswered(diagnosis, "device", devices.status(), flags);
  }
  return diagnosis;
}

void PrintDiagnosis(const v1::Diagnosis& diagnosis) {
  int warnings = 0, failures = 0;
  for (const v1::DoctorCheck& check : diagnosis.checks()) {
    const bool ok = check.verdict() == v1::CHECK_VERDICT_OK;
    const bool failed = check.verdict() == v1::CHECK_VERDICT_FAIL;
    warnings += !ok && !failed;
    failures += failed;
    const char* verdict = ok ? "ok  " : failed ? "FAIL" : "warn";
    std::printf("%s %-12s%s\n", (ok ? verdict : Bold(verdict)).c_str(), check.name().c_str(),
                check.finding().c_str());
    if (!check.advice().empty()) std::printf("%-17s-> %s\n", "", check.advice().c_str());
  }
  std::printf("%d checks: %d failed, %d with a warning\n", diagnosis.checks_size(), failures,
              warnings);
}

absl::Status Run(Session& session, const DoctorFlags& flags) {
  const v1::Diagnosis diagnosis = Diagnose(session, flags);
  for (const v1::DoctorCheck& check : diagnosis.checks()) {
    if (check.verdict() == v1::CHECK_VERDICT_FAIL) session.Finish(kFailed);
  }
  return Print(session, diagnosis, PrintDiagnosis);
}

}  // namespace

Command DoctorCommand(Session& session) {
  const auto flags = std::make_shared<DoctorFlags>();
  return {.name = "doctor",
          .help = "Check the host, the daemon and the devices, and say what to do about each fault",
          .examples = {"tunectl doctor", "tunectl --address gpu7:7070 doctor --json"},
          .notes =
              "Needs neither a daemon nor a GPU. Driver, counters, MPS, MIG and clock are "
              "checked on the\nhost where it runs, the rest where the daemon runs. "
              "Exits with 1 if a check failed; warnings\nleave the exit code at 0.",
          .json = kJsonHelp,
          .flags = {Flag("--timeout", &flags->timeout_seconds,
                         "Seconds after which a check without an answer has failed")
                        .Value("SECONDS")
                        .Range(1, 600)},
          .run = [&session, flags] { return Run(session, *flags); }};
}

}  // namespace tune::client
