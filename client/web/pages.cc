// SPDX-License-Identifier: Apache-2.0
#include "client/web/pages.h"

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "client/report/format.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_chart.h"
#include "client/report/sweep_report_view.h"
#include "client/report/sweep_trace.h"
#include "client/web/html.h"
#include "client/web/job_tables.h"
#include "client/web/visit.h"
#include "tune/v1/comparison.pb.h"
#include "tune/v1/device.grpc.pb.h"
#include "tune/v1/gate.pb.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/report.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune {
namespace embedded {
extern const std::string_view web_css;
extern const std::string_view web_js;
}  // namespace embedded

namespace client {
namespace {

constexpr size_t kTracedTrials = 100'000;
constexpr uint64_t kTrialsAtOnce = 5000;  // the report of more is loaded after the picture
constexpr uint32_t kIndexSweeps = 15;
constexpr uint32_t kUnfinished = 200;  // shown at once

// A roof and the best below it.
constexpr char kIcon[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><path d=\"M1 13L8 4h7\" "
    "fill=\"none\" stroke=\"#2a78d6\" stroke-width=\"2\"/><circle cx=\"9\" cy=\"8\" r=\"2\" "
    "fill=\"#148f62\"/></svg>\n";

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

constexpr std::pair<const char*, const char*> kNavigation[] = {
    {"/", "Now"},        {"/sweeps", "Sweeps"},   {"/comparisons", "Comparisons"},
    {"/gates", "Gates"}, {"/records", "Records"}, {"/snapshots", "Snapshots"},
    {"/jobs", "Jobs"},   {"/devices", "Devices"}};

std::string NavigationHtml() {
  std::string html = "<nav aria-label=\"Pages\">";
  for (const auto& [path, name] : kNavigation) absl::StrAppend(&html, LinkHtml(path, name), "\n");
  return absl::StrCat(html, "</nav>\n");
}

PageReply Redirection(const std::string& path) { return {.status = 303, .location = path}; }

std::vector<std::string> SegmentsOf(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

// The page of what a job found; empty if it has none.
std::string ResultPath(const v1::Job& job) {
  for (const auto& any : job.results()) {
    v1::GateRun run;
    v1::Comparison comparison;
    if (any.UnpackTo(&run) && run.id() != 0) return absl::StrCat("/gates/", run.id());
    if (any.UnpackTo(&comparison) && comparison.id() != 0) {
      return absl::StrCat("/comparisons/", comparison.id());
    }
  }
  return "";
}

std::string LiveHtml(const std::string& path, const std::string& html) {
  return absl::StrCat("<div data-live=\"", path, "\">\n", html, "</div>\n");
}

std::string CourseHtml(const v1::SweepCourse& course, const CourseView& view) {
  return Figure(ToSvg(CourseChart(course, view)));
}

// "?scale=linear&fastest=10" of the picture of a sweep.
absl::StatusOr<CourseView> ViewOf(const PageRequest& request) {
  CourseView view;
  if (const auto scale = request.query.find("scale"); scale != request.query.end()) {
    if (scale->second != "linear" && scale->second != "log") {
      return absl::InvalidArgumentError("scale is linear or log");
    }
    if (scale->second == "linear") view.scale = Scale::kLinear;
  }
  if (const auto fastest = request.query.find("fastest"); fastest != request.query.end()) {
    double percent = 0;
    if (!absl::SimpleAtod(fastest->second, &percent) || !(percent > 0) || percent > 100) {
      return absl::InvalidArgumentError("fastest is a percentage: 1 to 100");
    }
    view.fastest_share = percent / 100;
  }
  return view;
}

// Links to the other views of a sweep's picture.
std::string ViewsHtml(int64_t id) {
  const std::string path = absl::StrCat("/sweeps/", id);
  return absl::StrCat("<p class=\"views\">", LinkHtml(path, "all, logarithmic"), " ",
                      LinkHtml(path + "?scale=linear", "all, linear"), " ",
                      LinkHtml(path + "?fastest=50&scale=linear", "fastest half"), " ",
                      LinkHtml(path + "?fastest=10&scale=linear", "fastest 10 %"), " ",
                      LinkHtml(path + "/roofline", "roofline"), " ",
                      LinkHtml(path + "/trace.json", "timeline for ui.perfetto.dev"), "</p>\n");
}

}  // namespace

PageReply ReplyOf(const PageParts& parts) {
  return {.body = LinkedPage(parts, {.style = "/page.css",
                                     .script = "/page.js",
                                     .icon = "/icon.svg",
                                     .navigation = NavigationHtml()})};
}

PageReply ReplyOf(const std::string& title, const std::string& cards_html) {
  return ReplyOf({title, absl::StrCat("<h1>", EscapeXml(title), "</h1>\n", cards_html), ""});
}

std::string OlderHtml(const std::string& path, const std::string& page_token) {
  if (page_token.empty()) return "";
  return absl::StrCat("<p>", LinkHtml(path + "?page=" + EscapedForUrl(page_token), "older"),
                      "</p>\n");
}

Pages::Pages(std::shared_ptr<grpc::Channel> channel) : calls_(std::move(channel)) {
  Add("/", &Pages::Index);
  Add("/page.css", &Pages::Style);
  Add("/page.js", &Pages::Script);
  Add("/icon.svg", &Pages::Icon);
  Add("/sweeps", &Pages::Sweeps);
  Add("/sweeps/ID", &Pages::Sweep);
  Add("/sweeps/ID/course", &Pages::Course);
  Add("/sweeps/ID/report", &Pages::Report);
  Add("/sweeps/ID/trace.json", &Pages::Trace);
  Add("/sweeps/ID/roofline", &Pages::SweepRoofline);
  Add("/jobs", &Pages::Jobs);
  Add("/jobs/ID", &Pages::Job);
  Add("/devices", &Pages::Devices);
  Add("/devices/NAME", &Pages::Device);
  Add("/comparisons", &Pages::Comparisons);
  Add("/comparisons/ID", &Pages::Comparison);
  Add("/gates", &Pages::Gates);
  Add("/gates/ID", &Pages::Gate);
  Add("/history/NAME", &Pages::History);
  Add("/records", &Pages::Records);
  Add("/records/explain", &Pages::Explain);
  Add("/snapshots", &Pages::Snapshots);
}

void Pages::Add(const std::string& path, Handler handler) {
  routes_.push_back({SegmentsOf(path), handler});
}

PageReply Pages::ErrorPage(int status, const std::string& message) {
  const std::string title = status == 404 ? "There is no such page" : "This page cannot be shown";
  PageReply reply = ReplyOf(title, absl::StrCat("<p>", EscapeXml(message), "</p>\n"));
  reply.status = status;
  return reply;
}

PageReply Pages::Answer(const PageRequest& request) {
  const std::vector<std::string> segments = SegmentsOf(request.path);
  for (const Route& route : routes_) {
    Visit visit{request};
    bool fits = route.segments.size() == segments.size();
    for (size_t i = 0; fits && i < segments.size(); ++i) {
      if (route.segments[i] == "ID") {
        fits = absl::SimpleAtoi(segments[i], &visit.id) && visit.id > 0;
      } else if (route.segments[i] == "NAME") {
        visit.name = segments[i];
      } else {
        fits = route.segments[i] == segments[i];
      }
    }
    if (!fits) continue;
    absl::StatusOr<PageReply> reply = Contained([&] { return (this->*route.handler)(visit); });
    if (reply.ok()) return *std::move(reply);
    return ErrorPage(HttpStatusOf(reply.status()), std::string(reply.status().message()));
  }
  return ErrorPage(404, absl::StrCat("No page is at ", request.path, "."));
}

absl::StatusOr<PageReply> Pages::Style(const Visit&) {
  return PageReply{.type = "text/css; charset=utf-8",
                   .body = absl::StrCat(PageStyle(), std::string(embedded::web_css))};
}

absl::StatusOr<PageReply> Pages::Icon(const Visit&) {
  return PageReply{.type = "image/svg+xml", .body = kIcon};
}

absl::StatusOr<PageReply> Pages::Script(const Visit&) {
  return PageReply{.type = "text/javascript; charset=utf-8",
                   .body = absl::StrCat(PageScript(), std::string(embedded::web_js))};
}

absl::StatusOr<std::string> Pages::Now() {
  v1::ListJobsRequest request;
  request.set_unfinished(true);
  request.set_with_results(true);
  request.set_limit(kUnfinished);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs,
                   calls_.Call("", &v1::JobService::Stub::ListJobs, request));
  return UnfinishedTableHtml(VectorOf(jobs.jobs()));
}

std::string Pages::NowOf(const v1::JobEvent& event) {
  v1::Job job = event.job();
  *job.mutable_results() = event.results();
  const v1::Sweep sweep = SweepOf(job);
  return absl::StrCat(JobFactsHtml(job), sweep.id() == 0 ? "" : ProgressHtml(sweep));
}

absl::StatusOr<PageReply> Pages::Index(const Visit& visit) {
  const std::string& token = visit.request.token;
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse devices,
                   calls_.Call(token, &v1::DeviceService::Stub::ListDevices, {}));
  v1::ListJobsRequest request;
  request.set_kind(v1::JOB_KIND_SWEEP);
  request.set_with_results(true);
  request.set_limit(kIndexSweeps);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse sweeps,
                   calls_.Call(token, &v1::JobService::Stub::ListJobs, request));
  ASSIGN_OR_RETURN(const std::string now, Now());
  return ReplyOf("Now",
                 absl::StrCat(CardHtml("Jobs that run or wait", LiveHtml("/live", now)),
                              CardHtml("Devices", DevicesTableHtml(VectorOf(devices.devices()))),
                              CardHtml("Newest sweeps", SweepsTableHtml(VectorOf(sweeps.jobs())))));
}

absl::StatusOr<PageReply> Pages::Sweeps(const Visit& visit) {
  v1::ListJobsRequest request;
  request.set_kind(v1::JOB_KIND_SWEEP);
  request.set_with_results(true);
  request.set_limit(kListed);
  request.set_page_token(visit.Query("page"));
  ASSIGN_OR_RETURN(const v1::ListJobsResponse sweeps,
                   calls_.Call(visit.request.token, &v1::JobService::Stub::ListJobs, request));
  return ReplyOf("Sweeps",
                 absl::StrCat(CardHtml("Newest first", SweepsTableHtml(VectorOf(sweeps.jobs()))),
                              OlderHtml("/sweeps", sweeps.next_page_token())));
}

absl::StatusOr<PageReply> Pages::Jobs(const Visit& visit) {
  v1::ListJobsRequest request;
  request.set_limit(kListed);
  request.set_page_token(visit.Query("page"));
  ASSIGN_OR_RETURN(const v1::ListJobsResponse jobs,
                   calls_.Call(visit.request.token, &v1::JobService::Stub::ListJobs, request));
  return ReplyOf("Jobs",
                 absl::StrCat(CardHtml("Newest first", JobsTableHtml(VectorOf(jobs.jobs()))),
                              OlderHtml("/jobs", jobs.next_page_token())));
}

absl::StatusOr<PageReply> Pages::Job(const Visit& visit) {
  v1::GetJobRequest request;
  request.set_job_id(visit.id);
  request.set_with_results(true);
  ASSIGN_OR_RETURN(const v1::Job job,
                   calls_.Call(visit.request.token, &v1::JobService::Stub::GetJob, request));
  if (const v1::Sweep sweep = SweepOf(job); sweep.id() != 0) {
    return Redirection(absl::StrCat("/sweeps/", sweep.id()));
  }
  const std::string path = ResultPath(job);
  std::string html = JobFactsHtml(job);
  if (IsUnfinished(job)) html = LiveHtml(absl::StrCat("/live/jobs/", job.id()), html);
  if (!path.empty()) absl::StrAppend(&html, "<p>", LinkHtml(path, "the results"), "</p>\n");
  return ReplyOf(absl::StrCat("Job ", job.id(), ": ", ToText(job.kind()), " ", job.subject()),
                 CardHtml("State", html));
}

absl::StatusOr<PageReply> Pages::Course(const Visit& visit) {
  ASSIGN_OR_RETURN(const CourseView view, ViewOf(visit.request));
  v1::GetSweepCourseRequest request;
  request.set_sweep_id(visit.id);
  ASSIGN_OR_RETURN(
      const v1::SweepCourse course,
      calls_.Call(visit.request.token, &v1::ReportService::Stub::GetSweepCourse, request));
  return PageReply{.body = CourseHtml(course, view)};
}

absl::StatusOr<PageReply> Pages::Sweep(const Visit& visit) {
  const std::string& token = visit.request.token;
  ASSIGN_OR_RETURN(const CourseView view, ViewOf(visit.request));
  v1::GetSweepCourseRequest request;
  request.set_sweep_id(visit.id);
  ASSIGN_OR_RETURN(const v1::SweepCourse course,
                   calls_.Call(token, &v1::ReportService::Stub::GetSweepCourse, request));
  const v1::Sweep& sweep = course.sweep();
  const bool runs = sweep.finished_unix_ms() == 0;
  const std::string title = absl::StrCat("Sweep ", sweep.id(), ": ", SubjectText(sweep));
  const std::string refreshed =
      runs ? absl::StrCat(" data-refresh=\"/sweeps/", sweep.id(), "/course\"") : "";
  const std::string picture =
      absl::StrCat("<section class=\"card\">\n<div", refreshed, ">\n", CourseHtml(course, view),
                   "</div>\n", ViewsHtml(sweep.id()), "</section>\n");
  if (runs) {
    const std::string now = absl::StrCat(FactsHtml({{"state", EscapeXml(StateText(sweep))},
                                                    {"message", EscapeXml(sweep.message())}}),
                                         ProgressHtml(sweep));
    return ReplyOf(
        title,
        absl::StrCat(CardHtml("Now", LiveHtml(absl::StrCat("/live/jobs/", sweep.job_id()), now)),
                     picture));
  }
  if (course.trials() > kTrialsAtOnce) {
    const std::string path = absl::StrCat("/sweeps/", sweep.id(), "/report");
    return ReplyOf(title, absl::StrCat(picture, WinnerHtml(sweep), "<div data-load=\"", path,
                                       "\"><p>", LinkHtml(path, "The report of all trials"),
                                       " takes a moment.</p></div>\n"));
  }
  ASSIGN_OR_RETURN(PageParts parts, ReportOf(visit));
  parts.body =
      absl::StrCat("<h1>", EscapeXml(title), "</h1>\n", picture, WinnerHtml(sweep), parts.body);
  return ReplyOf(parts);
}

absl::StatusOr<PageParts> Pages::ReportOf(const Visit& visit) {
  v1::GetSweepReportRequest request;
  request.set_sweep_id(visit.id);
  ASSIGN_OR_RETURN(
      const v1::SweepReport report,
      calls_.Call(visit.request.token, &v1::ReportService::Stub::GetSweepReport, request));
  return PartsOf(report);
}

absl::StatusOr<PageReply> Pages::Report(const Visit& visit) {
  ASSIGN_OR_RETURN(const PageParts parts, ReportOf(visit));
  return ReplyOf(parts);
}

absl::StatusOr<PageReply> Pages::Trace(const Visit& visit) {
  const std::string& token = visit.request.token;
  v1::GetSweepRequest of_sweep;
  of_sweep.set_sweep_id(visit.id);
  ASSIGN_OR_RETURN(const v1::Sweep sweep,
                   calls_.Call(token, &v1::SweepService::Stub::GetSweep, of_sweep));
  v1::GetJobRequest of_job;
  of_job.set_job_id(sweep.job_id());
  ASSIGN_OR_RETURN(const v1::Job job, calls_.Call(token, &v1::JobService::Stub::GetJob, of_job));
  v1::ListTrialsRequest of_trials;
  of_trials.set_sweep_id(visit.id);
  std::vector<v1::Trial> trials;
  RETURN_IF_ERROR(
      calls_.Stream(token, &v1::SweepService::Stub::ListTrials, of_trials, [&](v1::Trial& trial) {
        trial.clear_message();
        trials.push_back(std::move(trial));
        return trials.size() < kTracedTrials;
      }));
  return PageReply{.type = "application/json", .body = TraceJson(job, trials)};
}

absl::StatusOr<PageReply> Pages::SweepRoofline(const Visit& visit) {
  v1::GetRooflinesRequest request;
  request.add_sweep_ids(visit.id);
  ASSIGN_OR_RETURN(
      const v1::RooflineReport report,
      calls_.Call(visit.request.token, &v1::ReportService::Stub::GetRooflines, request));
  return ReplyOf(PartsOf(report));
}

absl::StatusOr<PageReply> Pages::Devices(const Visit& visit) {
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse devices,
                   calls_.Call(visit.request.token, &v1::DeviceService::Stub::ListDevices, {}));
  return ReplyOf("Devices",
                 CardHtml("Of this host", DevicesTableHtml(VectorOf(devices.devices()))));
}

absl::StatusOr<PageReply> Pages::Device(const Visit& visit) {
  v1::GetDeviceRequest request;
  request.set_id(visit.name);
  ASSIGN_OR_RETURN(const v1::Device device,
                   calls_.Call(visit.request.token, &v1::DeviceService::Stub::GetDevice, request));
  return ReplyOf(absl::StrCat("Device ", device.id(), ": ", device.name()),
                 absl::StrCat(CardHtml("Device", DeviceFactsHtml(device)),
                              CardHtml("Ceilings", CeilingsTableHtml(device))));
}

}  // namespace client
}  // namespace tune
