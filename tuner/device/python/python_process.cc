// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/python/python_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::embedded {
extern const std::string_view python_process_script;
}

namespace tune::python {
namespace {

constexpr uint32_t kFrameBytesMax = 40u << 20;
// The child's ends of the pipes.
constexpr int kRequestsFd = 3;
constexpr int kRepliesFd = 4;
constexpr int kEndedFd = 5;

absl::Status Failed(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

// Without what would have Python read or run something else.
ChildCommand Command(const std::string& python, std::vector<std::string> arguments) {
  return {.program = python,
          .arguments = std::move(arguments),
          .environment = EnvironmentWithout({"PYTHON", "TRITON_"}, {})};
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
  ASSIGN_OR_RETURN(ChildResult result,
                   RunChild(Command(python, arguments), ChildErrors::kInherited, {}));
  if (result.exit_code == 0) return std::move(result.output);
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
      new PythonProcess(Command(python, {"-E", "-B", "-c", whole, kind, absl::StrCat(kRequestsFd),
                                         absl::StrCat(kRepliesFd), absl::StrCat(kEndedFd), folder}),
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
  if (fcntl(requests.write_end.get(), F_SETFL, O_NONBLOCK) != 0) return Failed("no pipe", errno);
  command_.files = {{requests.read_end.get(), kRequestsFd},
                    {replies.write_end.get(), kRepliesFd},
                    {ended.write_end.get(), kEndedFd}};
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command_));
  child_.emplace(std::move(child));
  requests_ = std::move(requests.write_end);
  replies_ = std::move(replies.read_end);
  ended_ = std::move(ended.read_end);
  answered_ = 0;
  requests.read_end.Reset();
  replies.write_end.Reset();
  ended.write_end.Reset();
  ASSIGN_OR_RETURN(const PythonReply ready, ReadReply());
  if (TextIn(ready.about, "outcome") == "ok") return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(command_.program, " cannot be used: ", TextIn(ready.about, "message")));
}

PythonProcess::~PythonProcess() { End(); }

// The process ends when its requests do.
void PythonProcess::End() {
  if (!child_) return;
  for (Descriptor* end : {&requests_, &replies_, &ended_}) end->Reset();
  child_->Wait();
  child_.reset();
}

absl::StatusOr<PythonReply> PythonProcess::Ask(nlohmann::json request) {
  for (bool was_replaced = false;;) {
    if (!child_) RETURN_IF_ERROR(Launch());
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
  if (IsReadable(replies_.get())) {
    return absl::UnavailableError("the process of Python replied before it was asked");
  }
  while (IsReadable(ended_.get())) {  // a child ended while it waited
    RETURN_IF_ERROR(AwaitEnd().status());
  }
  const absl::Status written = Write(Header(text.size()) + text);
  const absl::StatusOr<std::string> accepted = written.ok() ? ReadFrame(replies_.get()) : written;
  if (!accepted.ok()) {
    return absl::AbortedError(
        absl::StrCat("no process of Python took the request: ", accepted.status().message()));
  }
  if (*accepted != nonce) return AnotherRequest();
  return nonce;
}

absl::Status PythonProcess::Write(absl::string_view bytes) const {
  while (!bytes.empty()) {
    pollfd watched[] = {{requests_.get(), POLLOUT, 0}, {ended_.get(), POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return Failed("poll", errno);
    if ((watched[1].revents & POLLIN) != 0) return absl::AbortedError("the child has ended");
    const ssize_t written = write(requests_.get(), bytes.data(), bytes.size());
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
  ASSIGN_OR_RETURN(const std::string text, ReadFrame(ended_.get()));
  ASSIGN_OR_RETURN(nlohmann::json end, ParseObject(text));
  const auto left = end.find("left");
  if (left == end.end() || *left != false) {
    return absl::UnavailableError("the source has left processes running, which nothing may do");
  }
  return end;
}

absl::StatusOr<PythonReply> PythonProcess::ReadReply() {
  PythonReply reply;
  ASSIGN_OR_RETURN(const std::string about, ReadFrame(replies_.get()));
  ASSIGN_OR_RETURN(reply.made, ReadFrame(replies_.get()));
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
    pollfd watched[] = {{fd, POLLIN, 0}, {ended_.get(), POLLIN, 0}};
    if (poll(watched, fd == ended_.get() ? 1 : 2, -1) < 0) {
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
