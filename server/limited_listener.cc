// SPDX-License-Identifier: Apache-2.0
#include "server/limited_listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/listener.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr int kBacklog = 1024;
// Those who are told that it is full, at the same time and for how long; others are just closed.
constexpr size_t kTurnedAwayMax = 64;
constexpr absl::Duration kTurnedAwayFor = absl::Seconds(2);
constexpr size_t kRequestBytesMax = 16 << 10;
constexpr int kTickMs = 500;

// Of HTTP/2 (RFC 9113).
constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeaderBytes = 9;
constexpr char kHeaders = 1, kSettings = 4, kGoAway = 7;
constexpr char kEndStreamAndHeaders = 0x5;
constexpr char kEnhanceYourCalm = 0xb;

absl::Status Failed(const std::string& address, const char* what, int error) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", what, ": ",
                                                    std::strerror(error),
                                                    "; is it taken, or not ours?"));
}

absl::StatusOr<int> ListenOnPath(const std::string& address, const std::string& path) {
  sockaddr_un name{.sun_family = AF_UNIX};
  if (path.size() >= sizeof(name.sun_path)) return Failed(address, "path", ENAMETOOLONG);
  std::memcpy(name.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failed(address, "socket", errno);
  unlink(path.c_str());  // nobody answers there any more: PrepareSocket has tried
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 ||
      listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return Failed(address, "bind", error);
  }
  return fd;
}

absl::StatusOr<int> ListenOnPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? address : address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address, ": ", gai_strerror(code)));
  }
  absl::Status status = Failed(address, "no address", EADDRNOTAVAIL);
  int listening = -1;
  for (const addrinfo* it = found; it != nullptr && listening < 0; it = it->ai_next) {
    const int fd =
        socket(it->ai_family, it->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, it->ai_protocol);
    if (fd < 0) continue;
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, it->ai_addr, it->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) {
      listening = fd;
    } else {
      status = Failed(address, "bind", errno);
      close(fd);
    }
  }
  freeaddrinfo(found);
  if (listening < 0) return status;
  return listening;
}

int PortOf(int fd) {
  sockaddr_storage name;
  socklen_t size = sizeof(name);
  std::array<char, NI_MAXSERV> port = {};
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&name), size, nullptr, 0, port.data(), port.size(),
                  NI_NUMERICSERV) != 0) {
    return 0;
  }
  return std::atoi(port.data());
}

std::string Frame(char type, char flags, absl::string_view stream, absl::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(type);
  frame.push_back(flags);
  return absl::StrCat(frame, stream, payload);
}

// A header that is spelled out, never indexed. Both texts are short, and plain ASCII.
std::string Literal(absl::string_view name, absl::string_view value) {
  std::string text(1, '\0');
  for (const absl::string_view part : {name, value}) {
    // An integer with a prefix of 7 bits.
    size_t size = part.size();
    if (size < 127) {
      text.push_back(static_cast<char>(size));
    } else {
      text.push_back(127);
      for (size -= 127; size >= 128; size /= 128)
        text.push_back(static_cast<char>(size % 128 + 128));
      text.push_back(static_cast<char>(size));
    }
    absl::StrAppend(&text, part);
  }
  return text;
}

// The stream of the first request in what a client has sent; empty if none is there yet.
absl::string_view FirstStream(absl::string_view received) {
  if (received.size() < kPreface.size()) return "";
  received.remove_prefix(kPreface.size());
  while (received.size() >= kFrameHeaderBytes) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(received[i]); };
    const size_t length = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
    if (received[3] == kHeaders) return received.substr(5, 4);
    if (received.size() < kFrameHeaderBytes + length) return "";
    received.remove_prefix(kFrameHeaderBytes + length);
  }
  return "";
}

absl::Duration SinceBoot() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

bool SendAll(int fd, absl::string_view bytes) {
  // What is said is less than any socket's buffer.
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<LimitedListener>> LimitedListener::Listen(const Options& options) {
  const std::string path = SocketPath(options.address);
  int fd = -1;
  int port = 0;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(fd, ListenOnPath(options.address, path));
  } else {
    ASSIGN_OR_RETURN(fd, ListenOnPort(options.address));
    port = PortOf(fd);
  }
  return std::unique_ptr<LimitedListener>(new LimitedListener(options, fd, port));
}

LimitedListener::LimitedListener(const Options& options, int listen_fd, int port)
    : options_(options),
      listen_fd_(listen_fd),
      port_(port),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void LimitedListener::Start(
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  acceptor_ = std::move(acceptor);
  Watch(listen_fd_, EPOLLIN);
  Watch(wake_fd_, EPOLLIN);
  thread_ = std::thread([this] { Loop(); });
}

void LimitedListener::Stop() {
  if (std::exchange(stopped_, true)) return;
  if (thread_.joinable()) {
    const uint64_t one = 1;
    if (write(wake_fd_, &one, sizeof(one)) < 0) spdlog::error("eventfd: {}", std::strerror(errno));
    thread_.join();
  }
  const std::string path = SocketPath(options_.address);
  if (!path.empty()) unlink(path.c_str());
  for (const int fd : watched_) close(fd);
  close(listen_fd_);
  close(epoll_fd_);
  close(wake_fd_);
}

void LimitedListener::Watch(int fd, uint32_t events) const {
  epoll_event event{.events = events, .data = {.fd = fd}};
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
}

void LimitedListener::Loop() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()),
                                 turned_away_.empty() ? -1 : kTickMs);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_fd_) return;
      if (fd == listen_fd_) {
        Accept();
      } else if (const auto it = turned_away_.find(fd); it == turned_away_.end()) {
        Close(fd);  // a connection has ended
        --connections_;
      } else if (!Answer(fd, it->second)) {
        turned_away_.erase(it);
        Close(fd);
      }
    }
    const absl::Duration now = SinceBoot();
    for (auto it = turned_away_.begin(); it != turned_away_.end();) {
      const auto next = std::next(it);
      if (now - it->second.since > kTurnedAwayFor) {
        Close(it->first);
        turned_away_.erase(it);
      }
      it = next;
    }
  }
}

void LimitedListener::Close(int fd) {
  close(fd);
  watched_.erase(fd);
}

void LimitedListener::Accept() {
  while (true) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      connections_ < options_.connections_max ? Admit(fd) : Refuse(fd);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) {
      // No descriptors are left: without a pause this would be asked again at once.
      spdlog::error("accept: {}", std::strerror(errno));
      absl::SleepFor(absl::Milliseconds(100));
    }
    return;
  }
}

void LimitedListener::Admit(int fd) {
  const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (second < 0) {
    close(fd);
    return;
  }
  ++connections_;
  watched_.insert(second);
  Watch(second, EPOLLRDHUP);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listen_fd_;
  connection.fd = fd;
  acceptor_->HandleNewConnection(&connection);
}

void LimitedListener::Refuse(int fd) {
  if (refused_++ % 1000 == 0) {
    spdlog::warn("{} connections are open, and more are turned away: see --connections",
                 options_.connections_max);
  }
  if (!options_.plaintext || turned_away_.size() >= kTurnedAwayMax ||
      !SendAll(fd, Frame(kSettings, 0, absl::string_view("\0\0\0\0", 4), ""))) {
    close(fd);
    return;
  }
  turned_away_[fd] = {.since = SinceBoot()};
  watched_.insert(fd);
  Watch(fd, EPOLLIN | EPOLLRDHUP);
}

bool LimitedListener::Answer(int fd, Refused& refused) const {
  std::array<char, 4096> buffer;
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0 || refused.received.size() > kRequestBytesMax) return false;
  if (refused.answered) return true;  // until it closes, so that it reads what was said
  refused.received.append(buffer.data(), static_cast<size_t>(got));
  const absl::string_view stream = FirstStream(refused.received);
  if (stream.empty()) return true;
  refused.answered = true;
  const std::string message =
      absl::StrCat(options_.connections_max,
                   " connections are open, and the daemon takes no more; end some clients, try "
                   "again later, or start tunerd with a larger --connections");
  const std::string trailers =
      absl::StrCat("\x88", Literal("content-type", "application/grpc"), Literal("grpc-status", "8"),
                   Literal("grpc-message", message));
  const std::string calm = {0, 0, 0, kEnhanceYourCalm};
  return SendAll(fd, absl::StrCat(Frame(kHeaders, kEndStreamAndHeaders, stream, trailers),
                                  Frame(kGoAway, 0, absl::string_view("\0\0\0\0", 4),
                                        absl::StrCat(stream, calm))));
}

}  // namespace tune::server
