// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/python/python_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tuner/status_macros.h"

extern char** environ;

namespace tune::embedded {
extern const std::string_view python_process_script;
}

namespace tune::python {
namespace {

constexpr uint32_t kFrameBytesMax = 40u << 20;
constexpr size_t kOutputBytesMax = 64 << 10;
// The child's ends of the pipes.
constexpr int kRequestsFd = 3;
constexpr int kRepliesFd = 4;
constexpr int kFreeFds = 8;  // our own ends lie above what a child's are moved to

absl::Status Failed(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  void CloseRead() {
    if (read_end >= 0) close(std::exchange(read_end, -1));
  }
  void CloseWrite() {
    if (write_end >= 0) close(std::exchange(write_end, -1));
  }
  absl::Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Failed("no pipe", errno);
    read_end = fcntl(ends[0], F_DUPFD_CLOEXEC, kFreeFds);
    write_end = fcntl(ends[1], F_DUPFD_CLOEXEC, kFreeFds);
    close(ends[0]);
    close(ends[1]);
    return read_end < 0 || write_end < 0 ? Failed("no pipe", errno) : absl::OkStatus();
  }
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Without what would have Python read or run something else.
std::vector<std::string> Environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    if (absl::StartsWith(text, "PYTHON") || absl::StartsWith(text, "TRITON_")) continue;
    environment.emplace_back(text);
  }
  return environment;
}

// `moved`: files of ours and their numbers in the child, which has no others but the standard ones.
absl::StatusOr<pid_t> Spawn(std::vector<std::string> arguments,
                            std::initializer_list<std::pair<int, int>> moved, int first_closed) {
  std::vector<std::string> environment = Environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const auto& [ours, theirs] : moved) {
    posix_spawn_file_actions_adddup2(&actions, ours, theirs);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, first_closed);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments[0].c_str(), &actions, nullptr,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Failed(absl::StrCat("cannot start ", arguments[0]), error);
  return pid;
}

// False at the end of the file.
bool ReadExactly(int fd, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Processes that this one has started and that are meant to be there.
std::set<pid_t>& Known() {
  static auto* const known = new std::set<pid_t>;
  return *known;
}

std::vector<std::string> NamesIn(const char* folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder);
  while (const dirent* entry = dir == nullptr ? nullptr : readdir(dir)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  if (dir != nullptr) closedir(dir);
  return names;
}

// Of every process that can be seen, for hosts that list no thread's children; walls hide those of
// the others.
std::optional<std::vector<pid_t>> ChildrenAmongAll() {
  std::vector<pid_t> children;
  bool seen = false;
  for (const std::string& name : NamesIn("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid)) continue;
    std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');  // "17 (name) S 1 ...": the fourth is the parent
    const std::vector<std::string> fields =
        absl::StrSplit(text.substr(std::min(name_end, text.size())), ' ');
    pid_t parent = 0;
    if (fields.size() < 3 || !absl::SimpleAtoi(fields[2], &parent)) continue;
    seen = seen || pid == getpid();
    if (parent == getpid()) children.push_back(pid);
  }
  return seen ? std::optional(std::move(children)) : std::nullopt;
}

// Of this process; nothing if the host does not say.
std::optional<std::vector<pid_t>> Children() {
  std::vector<pid_t> children;
  const std::vector<std::string> threads = NamesIn("/proc/self/task");
  for (const std::string& thread : threads) {
    std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/children"));
    if (!file.good()) return ChildrenAmongAll();
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return threads.empty() ? std::nullopt : std::optional(std::move(children));
}

std::string Header(size_t size) {
  std::string header(4, '\0');
  for (int i = 0; i < 4; ++i) header[i] = static_cast<char>(size >> (8 * i) & 0xff);
  return header;
}

absl::StatusOr<std::string> ReadFrame(int fd) {
  std::array<unsigned char, 4> header;
  if (!ReadExactly(fd, reinterpret_cast<char*>(header.data()), header.size())) {
    return absl::UnavailableError("the process of Python has ended");
  }
  uint32_t size = 0;
  for (int i = 0; i < 4; ++i) size |= static_cast<uint32_t>(header[i]) << (8 * i);
  if (size > kFrameBytesMax) return absl::UnavailableError("the process of Python sent no frame");
  std::string payload(size, '\0');
  if (!ReadExactly(fd, payload.data(), size)) {
    return absl::UnavailableError("the process of Python has ended");
  }
  return payload;
}

}  // namespace

std::string TextIn(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string PythonScript(const std::string& text) {
  // Python looks for modules in the folder that it is started in before its own.
  return absl::StrCat("import sys\nif sys.path[:1] == ['']: del sys.path[0]\n", text);
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

absl::StatusOr<std::string> RunPython(const std::string& python,
                                      const std::vector<std::string>& arguments) {
  Pipe output;
  RETURN_IF_ERROR(output.Open());
  std::vector<std::string> command = {python};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(const pid_t pid,
                   Spawn(std::move(command), {{output.write_end, STDOUT_FILENO}}, kRequestsFd));
  output.CloseWrite();
  std::string text;
  char byte[4096];
  for (ssize_t got = 0; (got = read(output.read_end, byte, sizeof(byte))) != 0;) {
    if (got < 0 && errno != EINTR) break;
    const size_t room = kOutputBytesMax - text.size();
    if (got > 0) text.append(byte, std::min(room, static_cast<size_t>(got)));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (status == 0) return text;
  return absl::UnavailableError(absl::StrCat(python, " does not run"));
}

absl::StatusOr<std::unique_ptr<PythonProcess>> PythonProcess::Start(const std::string& python,
                                                                    const std::string& script,
                                                                    const std::string& kind,
                                                                    const std::string& folder) {
  Pipe requests;
  Pipe replies;
  RETURN_IF_ERROR(requests.Open());
  RETURN_IF_ERROR(replies.Open());
  const std::string whole =
      PythonScript(absl::StrCat(std::string(embedded::python_process_script), script));
  ASSIGN_OR_RETURN(const pid_t pid,
                   Spawn({python, "-E", "-B", "-c", whole,
                          kind, absl::StrCat(kRequestsFd), absl::StrCat(kRepliesFd), folder},
                         {{requests.read_end, kRequestsFd}, {replies.write_end, kRepliesFd}},
                         kRepliesFd + 1));
  std::unique_ptr<PythonProcess> process(
      new PythonProcess(pid, std::exchange(requests.write_end, -1),
                        std::exchange(replies.read_end, -1)));
  requests.CloseRead();
  replies.CloseWrite();
  ASSIGN_OR_RETURN(const PythonReply ready, process->ReadReply());
  if (TextIn(ready.about, "outcome") == "ok") return process;
  return absl::UnavailableError(
      absl::StrCat(python, " cannot be used: ", TextIn(ready.about, "message")));
}

PythonProcess::PythonProcess(pid_t pid, int requests, int replies)
    : pid_(pid), requests_(requests), replies_(replies) {
  Known().insert(pid);
}

// It ends when its requests do.
PythonProcess::~PythonProcess() {
  close(requests_);
  close(replies_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  Known().erase(pid_);
}

absl::StatusOr<PythonReply> PythonProcess::Ask(const nlohmann::json& request) {
  const std::string text =
      request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!WriteAll(requests_, Header(text.size())) || !WriteAll(requests_, text)) {
    return absl::UnavailableError("the process of Python has ended");
  }
  ASSIGN_OR_RETURN(PythonReply reply, ReadReply());
  RETURN_IF_ERROR(CheckAlone());
  return reply;
}

absl::StatusOr<PythonReply> PythonProcess::ReadReply() {
  PythonReply reply;
  ASSIGN_OR_RETURN(const std::string about, ReadFrame(replies_));
  ASSIGN_OR_RETURN(reply.made, ReadFrame(replies_));
  reply.about = nlohmann::json::parse(about, nullptr, /*allow_exceptions=*/false);
  if (!reply.about.is_object()) {
    return absl::UnavailableError("the process of Python sent no reply");
  }
  return reply;
}

// What a source has started and left running could meddle with the next request.
absl::Status PythonProcess::CheckAlone() const {
  while (waitpid(-1, nullptr, WNOHANG) > 0) continue;  // those that have ended meddle with nothing
  const std::optional<std::vector<pid_t>> children = Children();
  if (children.has_value() && std::all_of(children->begin(), children->end(),
                                          [](pid_t child) { return Known().contains(child); })) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      children.has_value() ? "the source has left processes running, which nothing may do"
                           : "this host does not tell which processes a source leaves running");
}

}  // namespace tune::python
