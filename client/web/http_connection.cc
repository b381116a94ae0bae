// SPDX-License-Identifier: Apache-2.0
#include "client/web/http_connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tune::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr auto kRequestTime = std::chrono::seconds(10);  // for all of it
constexpr auto kAnswerTime = std::chrono::seconds(30);
constexpr auto kEventTime = std::chrono::seconds(10);
constexpr auto kDrainTime = std::chrono::seconds(1);
constexpr size_t kRequestBytesMax = 16 << 10;
constexpr size_t kDrainedBytesMax = 1 << 20;
constexpr int kPingSeconds = 15;
constexpr int kStreamSeconds = 900;  // the browser then connects again

// Allows nothing inline, nothing of other sites, and no frame.
constexpr char kPolicy[] =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void SetHeaders(const std::string& type, http::fields& fields) {
  fields.set(http::field::content_type, type);
  fields.set(http::field::connection, "close");
  fields.set(http::field::cache_control, "no-store");
  fields.set("Content-Security-Policy", kPolicy);
  fields.set("X-Content-Type-Options", "nosniff");
  fields.set("Referrer-Policy", "no-referrer");
  fields.set("Cross-Origin-Resource-Policy", "same-origin");
  fields.set("Cross-Origin-Opener-Policy", "same-origin");
}

absl::string_view View(boost::string_view text) { return {text.data(), text.size()}; }

// An event of a stream: each line of its data by itself.
std::string EventText(const std::string& name, const std::string& data) {
  std::string text = absl::StrCat("event: ", name, "\n");
  for (const absl::string_view line : absl::StrSplit(data, '\n')) {
    absl::StrAppend(&text, "data: ", line, "\n");
  }
  return text + "\n";
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, HttpSite& site)
    : io_(site.io), socket_(std::move(socket)), site_(site), buffer_(kRequestBytesMax * 2) {}

void HttpConnection::Start() {
  site_.connections.insert(shared_from_this());
  parser_.emplace();
  parser_->header_limit(kRequestBytesMax);
  socket_.expires_after(kRequestTime);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](Error error, size_t) { self->OnRequest(error); });
}

void HttpConnection::TurnAway() {
  site_.connections.insert(shared_from_this());
  Answer(Pages::ErrorPage(503, "Too many browsers are connected; try again in a moment."));
}

void HttpConnection::Close() {
  if (closed_) return;
  closed_ = true;
  if (stream_ != Stream::kNone) --site_.streams;
  if (job_ != nullptr) job_->Cancel();
  socket_.close();
  site_.connections.erase(shared_from_this());
}

void HttpConnection::OnRequest(Error error) {
  if (closed_) return;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Answer(Pages::ErrorPage(431, "The request has more than 16 KiB of headers."));
  }
  if (error.category() == make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return Answer(Pages::ErrorPage(400, "This is no request of HTTP."));
  }
  if (error) return Close();
  const auto& header = parser_->get();
  head_only_ = header.method() == http::verb::head;
  if (header.method() != http::verb::get && !head_only_) {
    return Answer(Pages::ErrorPage(405, "The page is only read: GET and HEAD."));
  }
  if (!IsLoopbackHost(View(header[http::field::host]))) {
    return Answer(Pages::ErrorPage(
        421, "The page is served for this host's own names: localhost and 127.0.0.1."));
  }
  absl::StatusOr<PageRequest> request = ParseTarget(View(header.target()));
  if (!request.ok()) {
    return Answer(Pages::ErrorPage(400, std::string(request.status().message())));
  }
  Route(*std::move(request));
}

void HttpConnection::Route(PageRequest request) {
  absl::string_view path = request.path;
  int64_t job_id = 0;
  if (path == "/live") return Follow(Stream::kOverview, 0, request.token);
  if (absl::ConsumePrefix(&path, "/live/jobs/") && absl::SimpleAtoi(path, &job_id)) {
    return Follow(Stream::kJob, job_id, request.token);
  }
  MakePage(std::move(request));
}

void HttpConnection::MakePage(PageRequest request) {
  socket_.expires_never();
  asio::post(site_.page_threads, [self = shared_from_this(), request = std::move(request)] {
    PageReply reply = self->site_.pages.Answer(request);
    asio::post(*self->io_,
               [self, reply = std::move(reply)]() mutable { self->Answer(std::move(reply)); });
  });
}

void HttpConnection::Answer(PageReply reply) {
  if (closed_) return;
  response_ = {static_cast<http::status>(reply.status), 11};
  SetHeaders(reply.type, response_);
  if (!reply.location.empty()) response_.set(http::field::location, reply.location);
  if (reply.status == 405) response_.set(http::field::allow, "GET, HEAD");
  response_.content_length(reply.body.size());
  if (!head_only_) response_.body() = std::move(reply.body);
  socket_.expires_after(kAnswerTime);
  http::async_write(socket_, response_, [self = shared_from_this()](Error error, size_t) {
    if (error || self->closed_) return self->Close();
    Error ignored;
    self->socket_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    self->socket_.expires_after(kDrainTime);
    self->Drain();
  });
}

// Reads what the browser still sends: closing at once would have its host throw the answer away.
void HttpConnection::Drain() {
  if (closed_) return;
  socket_.async_read_some(asio::buffer(left_),
                          [self = shared_from_this()](Error error, size_t bytes) {
                            self->drained_ += bytes;
                            if (error || self->drained_ > kDrainedBytesMax) return self->Close();
                            self->Drain();
                          });
}

void HttpConnection::Follow(Stream stream, int64_t job_id, const std::string& token) {
  if (site_.streams >= HttpSite::kStreamsMax) {
    return Answer(Pages::ErrorPage(503, "Too many tabs follow what runs; close some."));
  }
  if (head_only_) return Answer({.type = "text/event-stream"});
  ++site_.streams;
  stream_ = stream;
  http::response<http::empty_body> header(http::status::ok, 11);
  SetHeaders("text/event-stream", header);
  std::ostringstream text;
  text << header.base() << "retry: 3000\n\n";
  socket_.expires_never();  // of reading
  AwaitLeaving();
  Send(text.str());
  if (stream == Stream::kJob) OpenJob(job_id, token);
}

void HttpConnection::OpenJob(int64_t job_id, const std::string& token) {
  ++site_.job_streams;
  job_ = JobStream::Open(site_.pages.channel(), job_id, token,
                         {.event =
                              [self = shared_from_this()](const v1::JobEvent& event) {
                                asio::post(*self->io_, [self, event] { self->OnJobEvent(event); });
                              },
                          .end =
                              [self = shared_from_this()](const grpc::Status& status) {
                                asio::post(*self->io_, [self, status] { self->OnJobEnd(status); });
                              }});
}

void HttpConnection::OnJobEvent(const v1::JobEvent& event) {
  if (closed_) return;
  // The headers may still be on their way: the first event then waits for them.
  const std::string text = EventText("now", Pages::NowOf(event));
  if (!Send(text)) waiting_ = text;
}

void HttpConnection::OnJobEnd(const grpc::Status& status) {
  job_ = nullptr;
  --site_.job_streams;
  site_.EndLoopIfOver();
  if (closed_) return;
  ends_ = true;
  // The browser connects again, or loads the page, which then says why.
  const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                     status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  const std::string text = again ? ": try again\n\n" : EventText("end", "");
  if (!Send(text)) waiting_ += text;
}

void HttpConnection::SendOverview(const std::string& html) {
  if (html == overview_ || !Send(EventText("now", html))) return;
  overview_ = html;
}

void HttpConnection::Tick() {
  ++seconds_;
  if (seconds_ >= kStreamSeconds) return Close();
  if (seconds_ % kPingSeconds == 0) Send(":\n\n");
}

// A browser sends nothing after its request: reading ends when it leaves.
void HttpConnection::AwaitLeaving() {
  socket_.async_read_some(asio::buffer(left_),
                          [self = shared_from_this()](Error, size_t) { self->Close(); });
}

bool HttpConnection::Send(std::string text) {
  if (closed_ || !sending_.empty()) return false;
  sending_ = std::move(text);
  socket_.expires_after(kEventTime);  // of writing: reading is under way
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](Error error, size_t) {
                      self->sending_.clear();
                      if (error) return self->Close();
                      if (self->closed_) return;
                      if (!self->waiting_.empty()) {
                        self->Send(std::exchange(self->waiting_, ""));
                      } else if (self->ends_) {
                        self->Close();
                      } else if (self->job_ != nullptr) {
                        self->job_->Next();
                      }
                    });
  return true;
}

}  // namespace tune::client
