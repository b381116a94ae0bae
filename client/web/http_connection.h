// SPDX-License-Identifier: Apache-2.0
// A browser's connection: one request, and its answer or a stream of events, each within a
// deadline. Lives on the thread of the server's loop; pages are made on other threads.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "client/web/job_stream.h"
#include "client/web/pages.h"

namespace tune::client {

class HttpConnection;

// Shared by the connections of a server. Used on the thread of the loop alone, but for the pages.
struct HttpSite {
  static constexpr size_t kConnectionsMax = 128;
  static constexpr size_t kStreamsMax = 64;

  // The loop ends once it is stopping and no call of a stream is left, whose end comes to it.
  void EndLoopIfOver() {
    if (stopping && job_streams == 0) work.reset();
  }

  const std::shared_ptr<boost::asio::io_context> io;
  Pages& pages;
  boost::asio::thread_pool& page_threads;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work;
  std::set<std::shared_ptr<HttpConnection>> connections;
  size_t streams = 0;      // of these
  size_t job_streams = 0;  // calls that have not ended
  bool stopping = false;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, HttpSite& site);

  // Reads the request and answers it.
  void Start();
  // Answers that too many are connected, without reading.
  void TurnAway();
  void Close();

  bool is_stream() const { return stream_ != Stream::kNone; }
  // Whether it follows the overview, and sends it what is new there.
  bool follows_overview() const { return stream_ == Stream::kOverview; }
  void SendOverview(const std::string& html);
  // Each second of a stream: finds out whether the browser is still there.
  void Tick();

 private:
  enum class Stream { kNone, kOverview, kJob };
  using Error = boost::system::error_code;

  void OnRequest(Error error);
  void Route(PageRequest request);
  void MakePage(PageRequest request);
  void Answer(PageReply reply);
  void Drain();

  void Follow(Stream stream, int64_t job_id, const std::string& token);
  void OpenJob(int64_t job_id, const std::string& token);
  void OnJobEvent(const v1::JobEvent& event);
  void OnJobEnd(const grpc::Status& status);
  void AwaitLeaving();
  // Sends an event unless the last one is still on its way. True if it is sent.
  bool Send(std::string text);

  const std::shared_ptr<boost::asio::io_context> io_;  // outlives the socket
  boost::beast::tcp_stream socket_;
  HttpSite& site_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  bool head_only_ = false;
  bool closed_ = false;

  Stream stream_ = Stream::kNone;
  std::shared_ptr<JobStream> job_;  // null: none, or it has ended
  std::string sending_;             // an event on its way
  std::string waiting_;             // an event to be sent after it
  std::string overview_;            // the last that was sent
  bool ends_ = false;               // once the event on its way is sent
  int seconds_ = 0;                 // of the stream
  char left_[64] = {};              // what a browser sends after its request
  size_t drained_ = 0;
};

}  // namespace tune::client
