// SPDX-License-Identifier: Apache-2.0
#include "client/web/web_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "client/web/http_connection.h"
#include "client/web/pages.h"

namespace tune::client {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr size_t kPageThreads = 4;
constexpr auto kTick = std::chrono::seconds(1);

absl::Status NotLoopback(const std::string& address) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--web ", address,
      ": the page is served at the loopback alone, as 127.0.0.1:7080 or [::1]:7080. From another "
      "host reach it through ssh: ssh -L 7080:127.0.0.1:7080 HOST, then open "
      "http://127.0.0.1:7080"));
}

absl::StatusOr<tcp::endpoint> EndpointOf(const std::string& address) {
  ASSIGN_OR_RETURN(const HostPort parts, HostPortOf(address));
  Error error;
  const asio::ip::address host =
      asio::ip::make_address(parts.host == "localhost" ? "127.0.0.1" : parts.host, error);
  if (error || !host.is_loopback()) return NotLoopback(address);
  uint32_t port = 0;
  if (!absl::SimpleAtoi(parts.port, &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--web ", address, ": the port is a number from 0 to 65535"));
  }
  return tcp::endpoint(host, static_cast<uint16_t>(port));
}

}  // namespace

struct WebServer::Parts {
  const std::shared_ptr<asio::io_context> io = std::make_shared<asio::io_context>(1);
  tcp::acceptor acceptor{*io};
  std::string url;
  std::optional<Pages> pages;
  std::optional<asio::thread_pool> page_threads;
  std::optional<HttpSite> site;
  asio::steady_timer timer{*io};
  asio::steady_timer retry{*io};  // of accepting
  bool making_overview = false;
  std::thread loop;

  void Accept();
  void Tick();
  void MakeOverview();
};

void WebServer::Parts::Accept() {
  if (!acceptor.is_open()) return;
  acceptor.async_accept([this](Error error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (error) {  // no descriptors are left: those that close make room
      retry.expires_after(kTick);
      return retry.async_wait([this](Error) { Accept(); });
    }
    const auto connection = std::make_shared<HttpConnection>(std::move(socket), *site);
    if (site->connections.size() < HttpSite::kConnectionsMax) {
      connection->Start();
    } else if (site->connections.size() < 2 * HttpSite::kConnectionsMax) {
      connection->TurnAway();
    }  // else it is closed
    Accept();
  });
}

// Each second: the overview for those who follow it.
void WebServer::Parts::Tick() {
  timer.expires_after(kTick);
  timer.async_wait([this](Error error) {
    if (error) return;
    const std::vector<std::shared_ptr<HttpConnection>> connections(site->connections.begin(),
                                                                   site->connections.end());
    bool followed = false;
    for (const auto& connection : connections) {
      if (connection->is_stream()) connection->Tick();
      followed |= connection->follows_overview();
    }
    if (followed && !making_overview) MakeOverview();
    Tick();
  });
}

void WebServer::Parts::MakeOverview() {
  making_overview = true;
  asio::post(*page_threads, [this] {
    const absl::StatusOr<std::string> html = Contained([this] { return pages->Now(); });
    asio::post(*io, [this, html] {
      making_overview = false;
      if (!html.ok()) return;
      const auto connections = site->connections;  // sending may remove some
      for (const auto& connection : connections) {
        if (connection->follows_overview()) connection->SendOverview(*html);
      }
    });
  });
}

WebServer::WebServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

WebServer::~WebServer() { Stop(); }

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Bind(const std::string& address) {
  ASSIGN_OR_RETURN(const tcp::endpoint endpoint, EndpointOf(address));
  auto parts = std::make_unique<Parts>();
  Error error;
  parts->acceptor.open(endpoint.protocol(), error);
  if (!error) parts->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) parts->acceptor.bind(endpoint, error);
  if (!error) parts->acceptor.listen(HttpSite::kConnectionsMax, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("--web ", address, ": ", error.message(), "; name another port"));
  }
  const tcp::endpoint taken = parts->acceptor.local_endpoint(error);
  const std::string host = taken.address().to_string();
  parts->url =
      absl::StrCat("http://", taken.address().is_v6() ? "[" + host + "]" : host, ":", taken.port());
  return std::unique_ptr<WebServer>(new WebServer(std::move(parts)));
}

const std::string& WebServer::url() const { return parts_->url; }

void WebServer::Serve(std::shared_ptr<grpc::Channel> channel) {
  parts_->pages.emplace(std::move(channel));
  parts_->page_threads.emplace(kPageThreads);
  parts_->site.emplace(HttpSite{.io = parts_->io,
                                .pages = *parts_->pages,
                                .page_threads = *parts_->page_threads,
                                .work = asio::make_work_guard(*parts_->io)});
  parts_->Accept();
  parts_->Tick();
  parts_->loop = std::thread([parts = parts_.get()] {
    // An exception of a handler, as for want of memory, ends that handler.
    while (!Contained([&] { parts->io->run(); }).ok()) {
    }
  });
}

void WebServer::Stop() {
  if (!parts_->loop.joinable()) return;
  asio::post(*parts_->io, [parts = parts_.get()] {
    Error ignored;
    parts->acceptor.close(ignored);
    parts->timer.cancel();
    parts->retry.cancel();
    const auto connections = parts->site->connections;
    for (const auto& connection : connections) connection->Close();
  });
  parts_->pages->Stop();
  parts_->page_threads->join();
  asio::post(*parts_->io, [parts = parts_.get()] {
    parts->site->stopping = true;
    parts->site->EndLoopIfOver();
  });
  parts_->loop.join();
}

}  // namespace tune::client
