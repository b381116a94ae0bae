// SPDX-License-Identifier: Apache-2.0
// The pages: each from messages of the daemon, by the same pictures and tables as reports. Reading
// a page changes nothing.
//
//   Pages pages(server->InProcessChannel());
//   const PageReply reply = pages.Answer(request);   // "/sweeps/12"; may block
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/report/html_page.h"
#include "client/web/daemon_calls.h"
#include "client/web/page_request.h"
#include "tune/v1/job.pb.h"

namespace tune::client {

struct Visit;

struct PageReply {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
  std::string location;  // of a redirection
};

// Thread-safe.
class Pages {
 public:
  explicit Pages(std::shared_ptr<grpc::Channel> channel);

  PageReply Answer(const PageRequest& request);
  // The part of the first page that changes: what runs and what waits. HTML.
  absl::StatusOr<std::string> Now();
  // The part of a job's page that changes. HTML.
  static std::string NowOf(const v1::JobEvent& event);
  // A page that says why there is none.
  static PageReply ErrorPage(int status, const std::string& message);

  const std::shared_ptr<grpc::Channel>& channel() const { return calls_.channel(); }
  void Stop() { calls_.Stop(); }

 private:
  using Handler = absl::StatusOr<PageReply> (Pages::*)(const Visit& visit);
  struct Route {
    std::vector<std::string> segments;  // "ID" is a number, "NAME" any text
    Handler handler;
  };

  void Add(const std::string& path, Handler handler);
  absl::StatusOr<PageReply> Index(const Visit& visit);
  absl::StatusOr<PageReply> Sweeps(const Visit& visit);
  absl::StatusOr<PageReply> Sweep(const Visit& visit);
  absl::StatusOr<PageReply> Course(const Visit& visit);
  absl::StatusOr<PageParts> ReportOf(const Visit& visit);
  absl::StatusOr<PageReply> Report(const Visit& visit);
  absl::StatusOr<PageReply> Trace(const Visit& visit);
  absl::StatusOr<PageReply> SweepRoofline(const Visit& visit);
  absl::StatusOr<PageReply> Jobs(const Visit& visit);
  absl::StatusOr<PageReply> Job(const Visit& visit);
  absl::StatusOr<PageReply> Devices(const Visit& visit);
  absl::StatusOr<PageReply> Device(const Visit& visit);
  absl::StatusOr<PageReply> Comparisons(const Visit& visit);
  absl::StatusOr<PageReply> Comparison(const Visit& visit);
  absl::StatusOr<PageReply> Gates(const Visit& visit);
  absl::StatusOr<PageReply> Gate(const Visit& visit);
  absl::StatusOr<PageReply> History(const Visit& visit);
  absl::StatusOr<PageReply> Records(const Visit& visit);
  absl::StatusOr<PageReply> Explain(const Visit& visit);
  absl::StatusOr<PageReply> Snapshots(const Visit& visit);
  absl::StatusOr<PageReply> Style(const Visit& visit);
  absl::StatusOr<PageReply> Icon(const Visit& visit);
  absl::StatusOr<PageReply> Script(const Visit& visit);

  DaemonCalls calls_;
  std::vector<Route> routes_;
};

}  // namespace tune::client
