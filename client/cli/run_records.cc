// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run_records.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/libtune/include/tune/tune.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;

constexpr double kDeadlineSeconds = 10;  // of the daemon; a job's process has 0.25 s

// libtune, which lies beside the programs. Stays loaded.
class Library {
 public:
  static absl::StatusOr<Library> Open() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    const std::string path = program.parent_path().parent_path() / "lib/libtune.so.1";
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    Library library;
    const bool whole = handle != nullptr && Load(handle, "tune_open", library.open) &&
                       Load(handle, "tune_close", library.close) &&
                       Load(handle, "tune_error", library.error) &&
                       Load(handle, "tune_client_digest", library.digest) &&
                       Load(handle, "tune_client_source", library.source) &&
                       Load(handle, "tune_client_note", library.note);
    if (whole) return library;
    return absl::FailedPreconditionError(absl::StrCat(
        "libtune is not beside this program (", dlerror(), "); install tunectl as a whole again"));
  }

  decltype(&tune_open) open = nullptr;
  decltype(&tune_close) close = nullptr;
  decltype(&tune_error) error = nullptr;
  decltype(&tune_client_digest) digest = nullptr;
  decltype(&tune_client_source) source = nullptr;
  decltype(&tune_client_note) note = nullptr;

 private:
  template <typename Function>
  static bool Load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }
};

}  // namespace

absl::StatusOr<RunRecords> FindRunRecords(const Session& session, const std::string& snapshot) {
  const bool is_newest = snapshot.empty() || snapshot == "latest";
  ASSIGN_OR_RETURN(const Library library, Library::Open());
  const tune_options options = {
      .size = sizeof(tune_options),
      .snapshot = is_newest ? "latest" : snapshot.c_str(),
      .address = session.address.empty() ? nullptr : session.address.c_str(),
      .deadline = kDeadlineSeconds,
      .record_misses = -1,
      .bundle = nullptr};
  tune_client* opened = nullptr;
  if (library.open(&options, &opened) != TUNE_OK) {
    return absl::InvalidArgumentError(absl::StrCat("--snapshot ", snapshot, ": ", library.error()));
  }
  const std::unique_ptr<tune_client, decltype(&tune_close)> client(opened, library.close);
  RunRecords records;
  for (size_t i = 0; library.note(client.get(), i) != nullptr; ++i) {
    records.notes.emplace_back(library.note(client.get(), i));
  }
  const std::string source = library.source(client.get());
  if (source != "none" && !(is_newest && source == "bundled")) {
    std::error_code error;
    const bool is_file = fs::is_regular_file(snapshot, error);
    records.digest = library.digest(client.get());
    records.name = is_file ? fs::absolute(snapshot, error).string() : records.digest;
    records.notes.clear();
  }
  if (!records.digest.empty() || is_newest) return records;
  return absl::NotFoundError(
      absl::StrCat("snapshot ", snapshot, " was not found: ", absl::StrJoin(records.notes, "; ")));
}

}  // namespace tune::client
