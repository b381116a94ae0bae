// SPDX-License-Identifier: Apache-2.0
// tunectl run -- PROGRAM: a program whose Triton kernels are launched by records, though nobody
// edited it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/child_process.h"
#include "base/status_macros.h"
#include "client/cli/command.h"
#include "client/cli/foreground.h"
#include "client/cli/run_notes.h"
#include "client/cli/run_records.h"
#include "client/cli/user_file.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr char kHook[] = "tunectl_adopt.py";              // lies beside the Python package
constexpr char kSite[] = "tunectl/_site";                 // for PYTHONPATH
constexpr char kPythonFolder[] = "share/tunectl/python";  // of an install or a build

struct RunFlags {
  std::string snapshot;
  std::string summary;
  bool no_tuning = false;
  std::vector<std::string> words;  // after the command, without "--"
};

// A private folder for one run, removed at its end.
class RunFolder {
 public:
  static absl::StatusOr<RunFolder> Make() {
    std::error_code error;
    fs::path base = fs::temp_directory_path(error);
    std::string path = (base.empty() ? fs::path("/tmp") : base) / "tunectl-run-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) return RunFolder(path);
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot make a folder like ", path, "; TMPDIR names a folder that can be written to"));
  }
  RunFolder(RunFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The folder with the Python package of this program: a wheel's, an install's or a build's.
absl::StatusOr<fs::path> PackageFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path of_wheel = program.parent_path().parent_path().parent_path();
  if (fs::exists(of_wheel / kHook, error)) return of_wheel;
  for (fs::path folder = program; folder.has_relative_path();) {
    folder = folder.parent_path();
    if (fs::exists(folder / kPythonFolder / kHook, error)) return folder / kPythonFolder;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no ", kHook, " lies beside ", program.string(), " or in ", kPythonFolder,
                   " of a folder above it; install tunectl as a whole again"));
}

void SetIfGiven(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), /*overwrite=*/1);
}

// How the program's processes reach the daemon: as this one, by flags or variables.
void SetConnection(const Session& session) {
  SetIfGiven("TUNE_ADDRESS", session.address);
  SetIfGiven("TUNE_DAEMON_USER", session.daemon_user);
  SetIfGiven("TUNE_TLS_CA", session.tls.ca);
  SetIfGiven("TUNE_TLS_CERT", session.tls.certificate);
  SetIfGiven("TUNE_TLS_KEY", session.tls.key);
  SetIfGiven("TUNE_TOKEN_FILE", session.tls.token_file);
}

// The variables that have the program's processes adopt Triton's functions.
void SetEnvironment(const RunFlags& flags, const RunRecords& records, const RunFolder& folder,
                    const fs::path& package) {
  const char* const path = std::getenv("PYTHONPATH");
  const std::string site = package / kSite;
  SetIfGiven("PYTHONPATH", path == nullptr || *path == '\0' ? site : absl::StrCat(site, ":", path));
  SetIfGiven("TUNE_ADOPT", flags.no_tuning ? "no-tuning" : "1");
  SetIfGiven("TUNE_ADOPT_NOTES", folder.path());
  SetIfGiven("TUNE_SNAPSHOT", records.name);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  setenv("TUNE_BIN", program.parent_path().c_str(), /*overwrite=*/0);
}

// Runs the program and returns its exit code; a signal that ended it ends this process, too.
absl::Status Run(Session& session, const RunFlags& flags) {
  const std::vector<std::string>& words = session.program.empty() ? flags.words : session.program;
  if (words.empty()) {
    return absl::InvalidArgumentError(
        "no program is named; write it after --: tunectl run -- python train.py");
  }
  const Foreground foreground;
  int status = 0;
  {
    ASSIGN_OR_RETURN(const fs::path package, PackageFolder());
    ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Make());
    SetConnection(session);
    ASSIGN_OR_RETURN(const RunRecords records, FindRunRecords(session, flags.snapshot));
    SetEnvironment(flags, records, folder, package);
    const absl::StatusOr<int> ran = foreground.Run(words);
    if (absl::IsNotFound(ran.status())) {
      std::fprintf(stderr, "tunectl run: %s\n", std::string(ran.status().message()).c_str());
      session.Finish(static_cast<ExitCode>(kNotFoundCode));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ran.status());
    status = *ran;
    const RunNotes notes = ReadRunNotes(folder.path());
    std::fputs(SummaryText(notes, records.digest, absl::StrJoin(records.notes, "; ")).c_str(),
               stderr);
    if (!flags.summary.empty()) {
      const absl::Status written =
          WriteFile(flags.summary, SummaryJson(notes, records.digest, tune::ExitCodeOf(status)));
      if (!written.ok()) {
        std::fprintf(stderr, "tunectl run: %s\n", std::string(written.message()).c_str());
      }
    }
  }
  session.Finish(static_cast<ExitCode>(EndAs(status)));  // the program's own, of any value
  return absl::OkStatus();
}

}  // namespace

Command RunCommand(Session& session) {
  const auto flags = std::make_shared<RunFlags>();
  return {.name = "run",
          .help = "Run a program whose Triton kernels are launched by records, without editing it",
          .examples = {"tunectl run -- python train.py",
                       "tunectl run --snapshot 15 --no-tuning -- torchrun --nproc-per-node 8 "
                       "train.py"},
          .notes = "Exits as PROGRAM does; with 127 if it cannot be started.",
          .program = true,
          .flags = {Flag("PROGRAM", &flags->words, "Program and its arguments, after --"),
                    Flag("--snapshot", &flags->snapshot,
                         "Snapshot of the records: sha256:<64 hex digits>, a number of this "
                         "host's or a file; by default the newest")
                        .Env("TUNE_SNAPSHOT"),
                    Flag("--summary", &flags->summary,
                         "File for the summary as JSON, with a row for each key of a kernel")
                        .Value("FILE"),
                    Flag("--no-tuning", &flags->no_tuning,
                         "Launch a kernel that has no record with its first config that runs; by "
                         "default Triton tunes it in the process")},
          .run = [&session, flags] { return Run(session, *flags); }};
}

}  // namespace tune::client
