// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/daemon.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/address.h"
#include "base/child_process.h"
#include "base/descriptor.h"
#include "base/status_macros.h"
#include "client/libtune/background.h"
#include "client/libtune/node_folder.h"

namespace tune::library {
namespace {

constexpr char kProgram[] = "tune-fetch";
constexpr size_t kWordsMax = 4096;  // of what the program says when it fails

absl::Status NoAnswer(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(address, ": ", why));
}

// A socket that nobody listens at is known at once, without a process.
absl::Status Probe(const std::string& address) {
  const std::string path = SocketPath(address);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.empty()) return absl::OkStatus();
  if (path.size() >= sizeof(name.sun_path)) return NoAnswer(address, "the path is too long");
  std::memcpy(name.sun_path, path.data(), path.size());
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok() || connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no daemon answers at ", address, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// TUNE_FETCH's, else beside the library, else of the PATH.
std::string ProgramName(const Environment& environment) {
  const std::string named = environment.Variable("TUNE_FETCH");
  if (!named.empty()) return named;
  const std::string folder = LibraryFolder();
  const std::string beside = absl::StrCat(folder, "/../bin/", kProgram);
  return !folder.empty() && access(beside.c_str(), X_OK) == 0 ? beside : kProgram;
}

// The input of a program as a file, which needs no writer: a pipe could be full, or closed.
absl::StatusOr<Descriptor> InputOf(const std::string& text) {
  Descriptor file(text.empty() ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                               : memfd_create("tune-fetch", MFD_CLOEXEC));
  if (file.ok() && WriteAll(file.get(), text) &&
      (text.empty() || lseek(file.get(), 0, SEEK_SET) == 0)) {
    return file;
  }
  return absl::UnavailableError(std::strerror(errno));
}

std::string LastLine(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  return lines.empty() ? "no answer" : std::string(lines.back().substr(0, 300));
}

}  // namespace

std::string LibraryFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&LibraryFolder), &info) == 0) return "";
  std::error_code error;
  return std::filesystem::canonical(info.dli_fname, error).parent_path();
}

absl::StatusOr<std::string> Fetch(const Order& order) {
  RETURN_IF_ERROR(Probe(order.address));
  const std::string program = ProgramName(order.environment);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(order.deadline -
                                                                 std::chrono::steady_clock::now());
  if (left.count() <= 0) return NoAnswer(order.address, "no answer in time");
  absl::StatusOr<Descriptor> input = InputOf(order.input);
  if (!input.ok()) return NoAnswer(order.address, input.status().message());
  const std::string path = order.environment.PathOf(program);
  if (path.empty()) {
    return NoAnswer(order.address,
                    absl::StrCat("cannot start ", program, ", which asks the daemon: not in PATH"));
  }
  absl::StatusOr<ChildResult> result =
      RunChild({.program = path,
                .arguments = {order.what, order.digest, order.address, absl::StrCat(left.count()),
                              absl::StrCat(order.bytes_max)},
                .environment = order.environment.lines(),
                .files = {{input->get(), STDIN_FILENO}}},
               ChildErrors::kApart,
               {.deadline = order.deadline,
                .output_max = order.bytes_max,
                .kills_at_max = true,
                .errors_max = kWordsMax,
                .end_fd = order.end_fd});
  if (absl::IsDeadlineExceeded(result.status()))
    return NoAnswer(order.address, "no answer in time");
  if (!result.ok()) {
    return NoAnswer(order.address,
                    absl::StrCat(result.status().message(), " (this program asks the daemon)"));
  }
  if (result->exit_code != 0) return NoAnswer(order.address, LastLine(result->errors));
  return std::move(result->output);
}

}  // namespace tune::library
