// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/python/python_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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
constexpr int kEndedFd = 5;
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

std::string Header(size_t size) {
  std::string header(4, '\0');
  for (int i = 0; i < 4; ++i) header[i] = static_cast<char>(size >> (8 * i) & 0xff);
  return header;
}

bool IsReadable(int fd) {
  pollfd watched = {fd, POLLIN, 0};
  return poll(&watched, 1, 0) > 0 && (watched.revents & POLLIN) != 0;
}

// Nobody who has not read the request can guess it.
absl::StatusOr<std::string> MakeNonce() {
  std::array<char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Failed("no random bytes", errno);
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

absl::Status AnotherRequest() {
  return absl::UnavailableError("the process of Python answered another request");
}

absl::StatusOr<nlohmann::json> ParseObject(const std::string& text) {
  nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::UnavailableError("the process of Python sent no reply");
  }
  return object;
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
                                                                    const std::string& folder,
                                                                    bool shares_children) {
  const std::string whole =
      PythonScript(absl::StrCat(std::string(embedded::python_process_script), script));
  std::unique_ptr<PythonProcess> process(
      new PythonProcess({python, "-E", "-B", "-c", whole, kind, absl::StrCat(kRequestsFd),
                         absl::StrCat(kRepliesFd), absl::StrCat(kEndedFd), folder},
                        shares_children));
  RETURN_IF_ERROR(process->Launch());
  return process;
}

absl::Status PythonProcess::Launch() {
  Pipe requests;
  Pipe replies;
  Pipe ended;
  for (Pipe* pipe : {&requests, &replies, &ended}) RETURN_IF_ERROR(pipe->Open());
  // The flag is of this end alone; the child's end has its own.
  if (fcntl(requests.write_end, F_SETFL, O_NONBLOCK) != 0) return Failed("no pipe", errno);
  ASSIGN_OR_RETURN(pid_, Spawn(command_,
                               {{requests.read_end, kRequestsFd},
                                {replies.write_end, kRepliesFd},
                                {ended.write_end, kEndedFd}},
                               kEndedFd + 1));
  requests_ = std::exchange(requests.write_end, -1);
  replies_ = std::exchange(replies.read_end, -1);
  ended_ = std::exchange(ended.read_end, -1);
  answered_ = 0;
  replies.CloseWrite();
  ended.CloseWrite();
  ASSIGN_OR_RETURN(const PythonReply ready, ReadReply());
  if (TextIn(ready.about, "outcome") == "ok") return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(command_[0], " cannot be used: ", TextIn(ready.about, "message")));
}

PythonProcess::~PythonProcess() { End(); }

// The process ends when its requests do.
void PythonProcess::End() {
  if (pid_ < 0) return;
  for (int* fd : {&requests_, &replies_, &ended_}) close(std::exchange(*fd, -1));
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
}

absl::StatusOr<PythonReply> PythonProcess::Ask(nlohmann::json request) {
  for (bool was_replaced = false;;) {
    if (pid_ < 0) RETURN_IF_ERROR(Launch());
    const absl::StatusOr<std::string> nonce = Send(request);
    if (absl::IsAborted(nonce.status())) {
      End();
      if (std::exchange(was_replaced, true))
        return absl::UnavailableError(nonce.status().message());
      continue;
    }
    RETURN_IF_ERROR(nonce.status());
    const bool is_fresh = answered_ == 0;
    ASSIGN_OR_RETURN(PythonReply reply, AwaitReply(*nonce));
    // A child that others have used may have failed of what is left of them.
    if (is_fresh || TextIn(reply.about, "outcome") == "ok") return reply;
  }
}

absl::StatusOr<std::vector<std::string>> PythonProcess::TryWalls() {
  ASSIGN_OR_RETURN(const PythonReply reply, Ask({{"try_walls", getpid()}}));
  const auto through = reply.about.find("through");
  if (through == reply.about.end() || !through->is_array()) {
    return absl::UnavailableError(
        absl::StrCat("no source could try them: ", TextIn(reply.about, "message")));
  }
  std::vector<std::string> acts;
  for (const nlohmann::json& act : *through) acts.push_back(act.dump());
  return acts;
}

absl::StatusOr<std::string> PythonProcess::Send(nlohmann::json& request) {
  ASSIGN_OR_RETURN(const std::string nonce, MakeNonce());
  request["nonce"] = nonce;
  const std::string text = request.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (IsReadable(replies_)) {
    return absl::UnavailableError("the process of Python replied before it was asked");
  }
  while (IsReadable(ended_)) RETURN_IF_ERROR(AwaitEnd().status());  // a child ended while it waited
  const absl::Status written = Write(Header(text.size()) + text);
  const absl::StatusOr<std::string> accepted = written.ok() ? ReadFrame(replies_) : written;
  if (!accepted.ok()) {
    return absl::AbortedError(
        absl::StrCat("no process of Python took the request: ", accepted.status().message()));
  }
  if (*accepted != nonce) return AnotherRequest();
  return nonce;
}

absl::Status PythonProcess::Write(absl::string_view bytes) const {
  while (!bytes.empty()) {
    pollfd watched[] = {{requests_, POLLOUT, 0}, {ended_, POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return Failed("poll", errno);
    if ((watched[1].revents & POLLIN) != 0) return absl::AbortedError("the child has ended");
    const ssize_t written = write(requests_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) return Failed("write", errno);
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<PythonReply> PythonProcess::AwaitReply(const std::string& nonce) {
  absl::StatusOr<PythonReply> reply = ReadReply();
  if (absl::IsAborted(reply.status())) {
    ASSIGN_OR_RETURN(const nlohmann::json end, AwaitEnd());
    return PythonReply{
        {{"outcome", "compile_failed"},
         {"log", TextIn(end, "log")},
         {"message", absl::StrCat("the process of Python ended by ", TextIn(end, "how"))}},
        ""};
  }
  if (!reply.ok()) return reply.status();
  if (TextIn(reply->about, "nonce") != nonce) return AnotherRequest();
  ++answered_;
  const auto is_last = reply->about.find("is_last");
  const bool goes_on = shares_children_ && is_last != reply->about.end() && *is_last == false;
  if (!goes_on) RETURN_IF_ERROR(AwaitEnd().status());
  return reply;
}

absl::StatusOr<nlohmann::json> PythonProcess::AwaitEnd() {
  answered_ = 0;
  ASSIGN_OR_RETURN(const std::string text, ReadFrame(ended_));
  ASSIGN_OR_RETURN(nlohmann::json end, ParseObject(text));
  const auto left = end.find("left");
  if (left == end.end() || *left != false) {
    return absl::UnavailableError("the source has left processes running, which nothing may do");
  }
  return end;
}

absl::StatusOr<PythonReply> PythonProcess::ReadReply() {
  PythonReply reply;
  ASSIGN_OR_RETURN(const std::string about, ReadFrame(replies_));
  ASSIGN_OR_RETURN(reply.made, ReadFrame(replies_));
  ASSIGN_OR_RETURN(reply.about, ParseObject(about));
  return reply;
}

absl::StatusOr<std::string> PythonProcess::ReadFrame(int fd) const {
  std::array<char, 4> header;
  RETURN_IF_ERROR(ReadExactly(fd, header.data(), header.size()));
  uint32_t size = 0;
  for (int i = 0; i < 4; ++i) {
    size |= static_cast<uint32_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  if (size > kFrameBytesMax) return absl::UnavailableError("the process of Python sent no frame");
  std::string payload(size, '\0');
  RETURN_IF_ERROR(ReadExactly(fd, payload.data(), size));
  return payload;
}

absl::Status PythonProcess::ReadExactly(int fd, char* bytes, size_t size) const {
  while (size > 0) {
    pollfd watched[] = {{fd, POLLIN, 0}, {ended_, POLLIN, 0}};
    if (poll(watched, fd == ended_ ? 1 : 2, -1) < 0) {
      if (errno == EINTR) continue;
      return Failed("poll", errno);
    }
    // A reply that the child sent before its end is read before the end is reported.
    if (watched[0].revents == 0 && (watched[1].revents & POLLIN) != 0) {
      return absl::AbortedError("the child has ended");
    }
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::UnavailableError("the process of Python has ended");
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace tune::python
