// SPDX-License-Identifier: Apache-2.0
// The page over HTTP, of a real server with a real sweep on the CPU device, as browsers and as
// programs that are none ask for it.
#include "client/web/web_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/server/test_server.h"

namespace tune::client {
namespace {

using server::Call;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A connection of a program that may be no browser.
class Raw {
 public:
  explicit Raw(const std::string& url) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {.sin_family = AF_INET};
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(url.substr(url.rfind(':') + 1), &port));
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Raw() { close(fd_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  bool Send(const std::string& bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // All that comes until the server closes, `until` was seen, or `patience` is over.
  std::string Read(absl::Duration patience = absl::Seconds(20),
                   const std::string& until = "(nothing)") {
    const absl::Time deadline = absl::Now() + patience;
    std::string text;
    closed_ = false;
    while (!absl::StrContains(text, until)) {
      pollfd ready = {.fd = fd_, .events = POLLIN};
      const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
      if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return text;
      char buffer[4096];
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count <= 0) {
        closed_ = true;
        return text;
      }
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  }
  bool closed() const { return closed_; }

 private:
  const int fd_;
  bool closed_ = false;
};

std::string RequestOf(const std::string& target, const std::string& host = "localhost") {
  return absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n");
}

class WebServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)server::StartLog("error", server::LogFormat::kText);
    dir_ = new server::TempDir();
    web_ = WebServer::Bind("127.0.0.1:0").value().release();
    server_ =
        server::Server::Start(
            {.state_dir = *dir_ / "state", .web_url = web_->url(), .worker_dir = TUNE_BIN_DIR})
            .value()
            .release();
    web_->Serve(server_->InProcessChannel());
    stubs_ = new server::Stubs(server_->InProcessChannel());
  }
  static void TearDownTestSuite() {
    delete stubs_;
    delete web_;
    delete server_;
    delete dir_;
  }

  static std::string Get(const std::string& target, const std::string& host = "localhost") {
    Raw raw(web_->url());
    EXPECT_TRUE(raw.Send(RequestOf(target, host)));
    return raw.Read();
  }
  static v1::Sweep Submit(uint32_t trials) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = server::ScaleKernel({.faulty = true});
    request.set_device("cpu");
    request.mutable_budget()->set_trials(trials);
    request.set_cache_mode(v1::CACHE_MODE_WARM);
    request.set_fresh(true);
    v1::Sweep sweep;
    EXPECT_TRUE(Call(*stubs_->sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep).ok());
    return sweep;
  }

  static server::TempDir* dir_;
  static WebServer* web_;
  static server::Server* server_;
  static server::Stubs* stubs_;
};
server::TempDir* WebServerTest::dir_ = nullptr;
WebServer* WebServerTest::web_ = nullptr;
server::Server* WebServerTest::server_ = nullptr;
server::Stubs* WebServerTest::stubs_ = nullptr;

TEST_F(WebServerTest, ASweepHasItsPageWhileItRunsAndAfterwards) {
  const v1::Sweep sweep = Submit(8);
  v1::GetJobRequest of_job;
  of_job.set_job_id(sweep.job_id());
  v1::Job job;
  ASSERT_TRUE(Call(*stubs_->jobs, &v1::JobService::Stub::GetJob, of_job, &job).ok());
  EXPECT_EQ(job.web_url(), absl::StrCat(web_->url(), "/jobs/", sweep.job_id()));

  const std::string path = absl::StrCat("/sweeps/", sweep.id());
  const std::string redirected = Get(absl::StrCat("/jobs/", sweep.job_id()));
  EXPECT_THAT(redirected, StartsWith("HTTP/1.1 303 "));
  EXPECT_THAT(redirected, HasSubstr("Location: " + path + "\r\n"));

  Raw stream(web_->url());
  ASSERT_TRUE(stream.Send(RequestOf(absl::StrCat("/live/jobs/", sweep.job_id()))));
  const std::string events = stream.Read(absl::Minutes(2));
  EXPECT_TRUE(stream.closed()) << events;
  EXPECT_THAT(events, HasSubstr("text/event-stream"));
  EXPECT_THAT(events, HasSubstr("event: now\ndata: "));
  EXPECT_THAT(events, HasSubstr("8 of 8"));
  EXPECT_THAT(events, HasSubstr("event: end\n"));

  const std::string page = Get(path);
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, HasSubstr("Trials in the order of the search"));
  EXPECT_THAT(page, HasSubstr("wrong_result"));  // the failure, in its band
  EXPECT_THAT(page, HasSubstr("best so far"));
  EXPECT_THAT(page, Not(HasSubstr("<style")));
  EXPECT_THAT(page, Not(HasSubstr(" style=")));
  EXPECT_THAT(Get(path + "?fastest=50&scale=linear"), HasSubstr("the fastest 50.0 %"));
  EXPECT_THAT(Get(path + "?fastest=0"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get(path + "/roofline"), HasSubstr("Roofline: scale"));
  EXPECT_THAT(Get("/"), HasSubstr(">scale n=4096"));
  EXPECT_THAT(Get("/sweeps"), HasSubstr(absl::StrCat("href=\"", path, "\"")));
  EXPECT_THAT(Get("/jobs"), HasSubstr("href=\"/jobs/"));
  EXPECT_THAT(Get("/devices"), HasSubstr("href=\"/devices/cpu\""));
  EXPECT_THAT(Get("/devices/cpu"), HasSubstr("Ceilings"));
}

TEST_F(WebServerTest, EveryKindOfResultHasAPage) {
  const v1::Sweep sweep = server::AwaitEnd(*stubs_->sweeps, Submit(4).id());
  const std::string path = absl::StrCat("/sweeps/", sweep.id());
  EXPECT_THAT(Get(path + "/report"), HasSubstr("What each parameter is worth"));
  EXPECT_THAT(Get(path + "/course"), Not(HasSubstr("<nav")));
  const std::string trace = Get(path + "/trace.json");
  EXPECT_THAT(trace, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(trace, HasSubstr("\"measures\""));
  EXPECT_THAT(Get("/snapshots"), HasSubstr("sha256:"));
  EXPECT_THAT(Get("/comparisons"), HasSubstr("None yet"));
  EXPECT_THAT(Get("/gates"), HasSubstr("None yet"));
  EXPECT_THAT(Get("/history/scale"), HasSubstr("Nothing is measured of it"));
  const std::string records = Get("/records?kernel=scale");
  const std::string link = "href=\"/records/explain?";
  const size_t at = records.find(link);
  ASSERT_NE(at, std::string::npos) << records;
  const size_t begin = at + std::string("href=\"").size();
  const std::string explain = absl::StrReplaceAll(
      records.substr(begin, records.find('"', begin) - begin), {{"&amp;", "&"}});
  EXPECT_THAT(explain, HasSubstr("dim.n=4096"));
  EXPECT_THAT(Get(explain), HasSubstr("it answers"));
  EXPECT_THAT(Get("/records/explain?kernel=none"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/records/explain?kernel=scale&dim.n=x"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(WebServerTest, NothingInlineIsAllowedAndNothingInlineIsThere) {
  const std::string page = Get("/");
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'; style-src 'self'; "
                              "script-src 'self';"));
  EXPECT_THAT(page, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(page, HasSubstr("frame-ancestors 'none'"));
  for (const char* inline_part : {"<style", " style=", "<script>", " onclick=", "unsafe-inline"}) {
    EXPECT_THAT(page, Not(HasSubstr(inline_part)));
  }
  EXPECT_THAT(Get("/page.css"), HasSubstr("Content-Type: text/css"));
  EXPECT_THAT(Get("/page.js"), HasSubstr("Content-Type: text/javascript"));
}

TEST_F(WebServerTest, PathsThatAreNoPagesAreErrorsWithAPage) {
  for (const char* target :
       {"/sweeps/4711", "/jobs/4711", "/devices/none", "/sweeps/0", "/sweeps/-1", "/sweeps/1x",
        "/sweeps/99999999999999999999", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/<script>",
        "/sweeps/1/2/3", "//evil.example", "/live/jobs/", "/live/jobs/x"}) {
    const std::string page = Get(target);
    EXPECT_THAT(page, StartsWith("HTTP/1.1 404 ")) << target;
    EXPECT_THAT(page, Not(HasSubstr("<script>")));
    EXPECT_THAT(page, HasSubstr("Content-Security-Policy: "));
  }
  EXPECT_THAT(Get("/%00"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/jobs?page=nonsense"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/", "evil.example"), StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Get("/", "127.0.0.1:1"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, OnlyRequestsThatReadAreAnswered) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE"}) {
    Raw raw(web_->url());
    ASSERT_TRUE(raw.Send(absl::StrCat(method,
                                      " / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
                                      "hello")));
    EXPECT_THAT(raw.Read(), StartsWith("HTTP/1.1 405 ")) << method;
  }
  Raw head(web_->url());
  ASSERT_TRUE(head.Send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const std::string answer = head.Read();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\n")) << answer;
}

TEST_F(WebServerTest, RequestsThatAreNoneOrTooLargeEndSoon) {
  const std::string large(100'000, 'a');
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, const char*>>{
           {"GET / HTTP/1.1\r\nX: " + large + "\r\n\r\n", "431"},
           {"GET /" + large + " HTTP/1.1\r\n\r\n", "431"},
           {"\x16\x03\x01\x02 TLS?\r\n\r\n", "400"},
           {"GET / HTTP/9.9\r\n\r\n", "400"},
           {"GET / HTTP/1.1\r\n\r\n", "421"}}) {
    Raw raw(web_->url());
    raw.Send(bytes);
    EXPECT_THAT(raw.Read(), StartsWith(absl::StrCat("HTTP/1.1 ", status))) << bytes.substr(0, 20);
    EXPECT_TRUE(raw.closed());
  }
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&many, "X-", i, ": ", i, "\r\n");
  Raw raw(web_->url());
  raw.Send(many + "\r\n");
  EXPECT_THAT(raw.Read(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(WebServerTest, ARequestThatTricklesInIsCutAtTheDeadline) {
  Raw raw(web_->url());
  const absl::Time start = absl::Now();
  ASSERT_TRUE(raw.Send("GET / HTTP/1.1\r\n"));
  while (absl::Now() - start < absl::Seconds(15)) {
    if (!raw.Send("X: 1\r\n")) break;
    raw.Read(absl::Milliseconds(300));
    if (raw.closed()) break;
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(13));
  EXPECT_GT(absl::Now() - start, absl::Seconds(8));
}

TEST_F(WebServerTest, BrowsersBeyondTheBoundAreTurnedAwayAndOthersAreServedAfterwards) {
  {
    std::vector<std::unique_ptr<Raw>> idle;
    for (int i = 0; i < 128; ++i) idle.push_back(std::make_unique<Raw>(web_->url()));
    EXPECT_THAT(Get("/page.css"), StartsWith("HTTP/1.1 503 "));
  }
  std::string answer;
  for (int i = 0; i < 50 && !absl::StartsWith(answer, "HTTP/1.1 200 "); ++i) {
    absl::SleepFor(absl::Milliseconds(50));
    answer = Get("/page.css");
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, TabsBeyondTheBoundDoNotFollowAndPagesAreStillServed) {
  std::vector<std::unique_ptr<Raw>> tabs;
  for (int i = 0; i < 64; ++i) {
    tabs.push_back(std::make_unique<Raw>(web_->url()));
    ASSERT_TRUE(tabs.back()->Send(RequestOf("/live")));
    EXPECT_THAT(tabs.back()->Read(absl::Seconds(10), "retry"), HasSubstr("200 OK"));
  }
  EXPECT_THAT(Get("/live"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(tabs[0]->Read(absl::Seconds(10), "event: now"), HasSubstr("No job runs"));
}

TEST_F(WebServerTest, ReadersThatDoNotReadDelayNobody) {
  const v1::Sweep sweep = server::AwaitEnd(*stubs_->sweeps, Submit(16).id());
  std::vector<std::unique_ptr<Raw>> lazy;
  for (int i = 0; i < 20; ++i) {
    lazy.push_back(std::make_unique<Raw>(web_->url()));
    lazy.back()->Send(RequestOf(absl::StrCat("/sweeps/", sweep.id())));
  }
  const absl::Time start = absl::Now();
  EXPECT_THAT(Get("/page.css"), StartsWith("HTTP/1.1 200 "));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(WebServerBindTest, OnlyAddressesOfTheLoopbackAreTaken) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.0.0.1:80", "example.org:80"}) {
    const absl::Status status = WebServer::Bind(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("ssh -L"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(WebServer::Bind("127.0.0.1:99999").status()));
  const auto first = WebServer::Bind("localhost:0").value();
  EXPECT_THAT(first->url(), StartsWith("http://127.0.0.1:"));
  const absl::Status taken =
      WebServer::Bind(first->url().substr(std::string("http://").size())).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(taken)) << taken;
}

TEST(WebServerBindTest, ADaemonStopsWhileBrowsersFollow) {
  const server::TempDir dir;
  auto web = WebServer::Bind("127.0.0.1:0").value();
  auto daemon = server::Server::Start({.state_dir = dir / "state", .worker_dir = TUNE_BIN_DIR});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  web->Serve((*daemon)->InProcessChannel());
  Raw now(web->url()), job(web->url());
  now.Send(RequestOf("/live"));
  job.Send(RequestOf("/live/jobs/1"));
  now.Read(absl::Seconds(5), "retry");
  const absl::Time start = absl::Now();
  web = nullptr;
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  now.Read(absl::Seconds(5));
  EXPECT_TRUE(now.closed());
}

}  // namespace
}  // namespace tune::client
