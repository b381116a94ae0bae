// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/metrics_listener.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::chrono::seconds kPatience(5);      // to read a request, and to write an answer
constexpr std::chrono::milliseconds kPause(200);  // before another connection is taken
constexpr int kConnectionsMax = 16;
constexpr uint32_t kRequestBytesMax = 4096;
constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// A connection: one request and its answer. Lives as long as its operations.
class Scrape : public std::enable_shared_from_this<Scrape> {
 public:
  // `open` counts the connections.
  Scrape(tcp::socket socket, const std::function<std::string()>& text, int& open)
      : stream_(std::move(socket)), text_(text), open_(open) {
    ++open_;
  }
  ~Scrape() { --open_; }

  void Start() {
    parser_.header_limit(kRequestBytesMax);
    stream_.expires_after(kPatience);
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](Error error, size_t) {
                              if (!error) self->Answer();
                            });
  }

 private:
  void Answer() {
    const http::request<http::empty_body>& request = parser_.get();
    response_.version(request.version());
    response_.keep_alive(false);
    if (request.method() != http::verb::get) {
      response_.result(http::status::method_not_allowed);
    } else if (request.target() != "/metrics") {
      response_.result(http::status::not_found);
    } else {
      response_.set(http::field::content_type, kContentType);
      response_.body() = text_();
    }
    response_.prepare_payload();
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_, [self = shared_from_this()](Error, size_t) {});
  }

  boost::beast::tcp_stream stream_;
  const std::function<std::string()>& text_;
  int& open_;
  boost::beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

class MetricsListener::Loop {
 public:
  explicit Loop(std::function<std::string()> text) : text_(std::move(text)) {}

  // Returns the port that was taken.
  absl::StatusOr<int> Listen(const tcp::endpoint& endpoint) {
    Error error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return absl::FailedPreconditionError(error.message());
    return acceptor_.local_endpoint().port();
  }

  void Run() {
    Accept();
    io_.run();
  }

  void Stop() { io_.stop(); }

 private:
  void Accept() {
    acceptor_.async_accept([this](Error error, tcp::socket socket) {
      if (error) return AcceptLater();  // without free descriptors each try would fail at once
      std::make_shared<Scrape>(std::move(socket), text_, open_)->Start();
      open_ < kConnectionsMax ? Accept() : AcceptLater();
    });
  }

  void AcceptLater() {
    timer_.expires_after(kPause);
    timer_.async_wait([this](Error) { open_ < kConnectionsMax ? Accept() : AcceptLater(); });
  }

  const std::function<std::string()> text_;
  int open_ = 0;
  asio::io_context io_{1};  // destroys the connections, which count themselves
  tcp::acceptor acceptor_{io_};
  asio::steady_timer timer_{io_};
};

absl::Status CheckLoopback(const std::string& address) {
  const absl::StatusOr<HostPort> parts = HostPortOf(address);
  int port = -1;
  if (parts.ok() && (parts->host == "127.0.0.1" || parts->host == "::1") &&
      absl::SimpleAtoi(parts->port, &port) && port >= 0 && port <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--metrics ", address, ": it is a port of the loopback, 127.0.0.1:9464; a ",
                   "Prometheus of another host reads it through a proxy that asks who calls"));
}

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::function<std::string()> text) {
  RETURN_IF_ERROR(CheckLoopback(address));
  ASSIGN_OR_RETURN(const HostPort parts, HostPortOf(address));
  auto loop = std::make_unique<Loop>(std::move(text));
  const absl::StatusOr<int> port = loop->Listen(
      {asio::ip::make_address(parts.host), static_cast<uint16_t>(std::stoi(parts.port))});
  if (!port.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--metrics ", address, ": the port cannot be listened at: ", port.status().message()));
  }
  return std::unique_ptr<MetricsListener>(new MetricsListener(
      std::move(loop), absl::StrCat(parts.host == "::1" ? "[::1]" : parts.host, ":", *port)));
}

MetricsListener::MetricsListener(std::unique_ptr<Loop> loop, std::string address)
    : loop_(std::move(loop)), address_(std::move(address)), thread_([this] { loop_->Run(); }) {}

MetricsListener::~MetricsListener() {
  loop_->Stop();
  thread_.join();
}

}  // namespace tune::server
