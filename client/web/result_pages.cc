// SPDX-License-Identifier: Apache-2.0
// The pages of comparisons, gates, histories, records and snapshots.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/report/format.h"
#include "client/report/gate_report.h"
#include "client/report/history_view.h"
#include "client/report/html_text.h"
#include "client/report/svg_chart.h"
#include "client/web/html.h"
#include "client/web/visit.h"
#include "tune/v1/comparison.grpc.pb.h"
#include "tune/v1/gate.grpc.pb.h"
#include "tune/v1/record.grpc.pb.h"
#include "tune/v1/snapshot.grpc.pb.h"

namespace tune::client {
namespace {

constexpr char kDimPrefix[] = "dim.";

// The page that explains why a problem is answered as it is.
std::string ExplainPath(const v1::Record& record) {
  std::string path = absl::StrCat("/records/explain?kernel=", EscapedForUrl(record.kernel_name()),
                                  "&dtype=", EscapedForUrl(record.problem().dtype()),
                                  "&device=", EscapedForUrl(record.device_name()));
  for (const v1::DimValue& dim : record.problem().dims()) {
    absl::StrAppend(&path, "&", kDimPrefix, EscapedForUrl(dim.name()), "=", dim.value());
  }
  return path;
}

absl::StatusOr<v1::LookupRequest> QuestionOf(const Visit& visit) {
  v1::LookupRequest question;
  question.set_kernel_name(visit.Query("kernel"));
  question.set_dtype(visit.Query("dtype"));
  question.set_device(visit.Query("device"));
  for (const auto& [key, value] : visit.request.query) {
    absl::string_view dim = key;
    if (!absl::ConsumePrefix(&dim, kDimPrefix)) continue;
    int64_t size = 0;
    if (!absl::SimpleAtoi(value, &size)) {
      return absl::InvalidArgumentError(absl::StrCat(dim, " is a whole number, not ", value));
    }
    (*question.mutable_dims())[std::string(dim)] = size;
  }
  return question;
}

std::string CandidateHtml(const v1::Candidate& candidate) {
  RowsHtml rows;
  for (const v1::KeyField& field : candidate.fields()) {
    rows.push_back({EscapeXml(field.name()), EscapeXml(field.rule()), EscapeXml(field.asked()),
                    EscapeXml(field.there()), EscapeXml(field.verdict())});
  }
  const std::string name = candidate.record_id() == 0
                               ? "Shipped record"
                               : absl::StrCat("Record ", candidate.record_id());
  const std::string role = candidate.answers()           ? ": it answers"
                           : candidate.config_is_valid() ? ""
                                                         : ": its config is not valid here";
  return CardHtml(name + role,
                  TableHtml({"field", "rule", "asked", "record", "verdict"}, rows, "No fields."));
}

}  // namespace

absl::StatusOr<PageReply> Pages::Comparisons(const Visit& visit) {
  v1::ListComparisonsRequest request;
  request.set_limit(kListed);
  request.set_page_token(visit.Query("page"));
  ASSIGN_OR_RETURN(
      const v1::ListComparisonsResponse list,
      calls_.Call(visit.request.token, &v1::CompareService::Stub::ListComparisons, request));
  RowsHtml rows;
  for (const v1::Comparison& comparison : list.comparisons()) {
    const std::string id = absl::StrCat(comparison.id());
    rows.push_back({LinkHtml("/comparisons/" + id, id), EscapeXml(comparison.subject()),
                    ToText(comparison.state()), EscapeXml(comparison.device_name()),
                    AgoHtml(comparison.created_unix_ms())});
  }
  return ReplyOf(
      "Comparisons",
      absl::StrCat(
          CardHtml("Newest first", TableHtml({"comparison", "subject", "state", "device", "asked"},
                                             rows, "None yet. Make one with: tunectl compare")),
          OlderHtml("/comparisons", list.next_page_token())));
}

absl::StatusOr<PageReply> Pages::Comparison(const Visit& visit) {
  v1::GetComparisonRequest request;
  request.set_comparison_id(visit.id);
  ASSIGN_OR_RETURN(
      const v1::Comparison comparison,
      calls_.Call(visit.request.token, &v1::CompareService::Stub::GetComparison, request));
  return ReplyOf(PartsOf(comparison));
}

absl::StatusOr<PageReply> Pages::Gates(const Visit& visit) {
  v1::ListGatesRequest request;
  request.set_limit(kListed);
  request.set_page_token(visit.Query("page"));
  ASSIGN_OR_RETURN(const v1::ListGatesResponse list,
                   calls_.Call(visit.request.token, &v1::GateService::Stub::ListGates, request));
  RowsHtml rows;
  for (const v1::GateRun& run : list.runs()) {
    const std::string id = absl::StrCat(run.id());
    rows.push_back({LinkHtml("/gates/" + id, id), EscapeXml(run.base_label()),
                    EscapeXml(run.head_label()), ToText(run.state()),
                    EscapeXml(CountsText(run.verdicts())), EscapeXml(run.device_name()),
                    AgoHtml(run.started_unix_ms())});
  }
  return ReplyOf(
      "Gates",
      absl::StrCat(
          CardHtml("Newest first",
                   TableHtml({"run", "base", "head", "state", "verdicts", "device", "started"},
                             rows, "None yet. Make one with: tunectl gate")),
          OlderHtml("/gates", list.next_page_token())));
}

absl::StatusOr<PageReply> Pages::Gate(const Visit& visit) {
  v1::GetGateRequest request;
  request.set_run_id(visit.id);
  ASSIGN_OR_RETURN(const v1::GateRun run,
                   calls_.Call(visit.request.token, &v1::GateService::Stub::GetGate, request));
  std::string histories;
  for (const v1::GateKernel& kernel : run.kernels()) {
    absl::StrAppend(&histories, LinkHtml("/history/" + EscapedForUrl(kernel.name()), kernel.name()),
                    " ");
  }
  return ReplyOf(
      {absl::StrCat("Gate ", run.id()),
       absl::StrCat("<section class=\"card\">\n", HtmlOfMarkdown(MarkdownText(run), {}),
                    "</section>\n",
                    histories.empty() ? "" : CardHtml("Histories", "<p>" + histories + "</p>\n")),
       ""});
}

absl::StatusOr<PageReply> Pages::History(const Visit& visit) {
  v1::GetHistoryRequest request;
  request.set_kernel_name(visit.name);
  ASSIGN_OR_RETURN(const v1::GetHistoryResponse history,
                   calls_.Call(visit.request.token, &v1::GateService::Stub::GetHistory, request));
  std::string html = Figure(HistorySvg(history));
  for (const v1::HistorySeries& series : history.series()) {
    absl::StrAppend(&html, "<details><summary>", EscapeXml(ToText(series.problem())),
                    "</summary><pre>", EscapeXml(HistoryText(series)), "</pre></details>\n");
  }
  if (history.series().empty()) {
    html = absl::StrCat(
        "<p class=\"note\">Nothing is measured of it. Try: tunectl history add "
        "--kernels ",
        EscapeXml(visit.name), "</p>\n");
  }
  return ReplyOf(absl::StrCat("History of ", visit.name), CardHtml("Series", html));
}

absl::StatusOr<PageReply> Pages::Records(const Visit& visit) {
  v1::ListRecordsRequest request;
  request.set_kernel_name(visit.Query("kernel"));
  request.set_limit(kListed);
  uint32_t first = 0;
  if (!visit.Query("page").empty() && !absl::SimpleAtoi(visit.Query("page"), &first)) {
    return absl::InvalidArgumentError("page is a whole number");
  }
  request.set_first(first);
  ASSIGN_OR_RETURN(
      const v1::ListRecordsResponse list,
      calls_.Call(visit.request.token, &v1::RecordService::Stub::ListRecords, request));
  RowsHtml rows;
  for (const v1::Record& record : list.records()) {
    rows.push_back(
        {record.id() == 0 ? "shipped" : absl::StrCat(record.id()),
         LinkHtml("/history/" + EscapedForUrl(record.kernel_name()), record.kernel_name()),
         EscapeXml(ToText(record.problem())), EscapeXml(record.device_name()),
         LatencyText(record.measurement().latency_ns_median()), EscapeXml(ToText(record.config())),
         record.sweep_id() == 0 ? "-"
                                : LinkHtml(absl::StrCat("/sweeps/", record.sweep_id()),
                                           absl::StrCat(record.sweep_id())),
         AgoHtml(record.published_unix_ms()), LinkHtml(ExplainPath(record), "explain")});
  }
  const uint32_t next = first + static_cast<uint32_t>(list.records_size());
  return ReplyOf(
      "Records",
      absl::StrCat(CardHtml("Answers of look-ups",
                            TableHtml({"record", "kernel", "problem", "device", "latency", "config",
                                       "sweep", "published", ""},
                                      rows, "No records. Tune a kernel with: tunectl sweep")),
                   OlderHtml("/records", list.left() > 0 ? absl::StrCat(next) : "")));
}

absl::StatusOr<PageReply> Pages::Explain(const Visit& visit) {
  v1::ExplainRequest request;
  ASSIGN_OR_RETURN(*request.mutable_question(), QuestionOf(visit));
  ASSIGN_OR_RETURN(const v1::ExplainResponse explained,
                   calls_.Call(visit.request.token, &v1::RecordService::Stub::Explain, request));
  const v1::LookupResponse& answer = explained.answer();
  std::string html =
      CardHtml("Answer", FactsHtml({{"config", EscapeXml(ToText(answer.config()))},
                                    {"reason", EscapeXml(answer.reason())},
                                    {"problem", EscapeXml(ToText(explained.problem()))},
                                    {"device", EscapeXml(explained.device_name())},
                                    {"target", EscapeXml(explained.target())}}));
  for (const v1::Candidate& candidate : explained.candidates()) {
    absl::StrAppend(&html, CandidateHtml(candidate));
  }
  return ReplyOf(absl::StrCat("Why ", request.question().kernel_name(), " is answered so"), html);
}

absl::StatusOr<PageReply> Pages::Snapshots(const Visit& visit) {
  ASSIGN_OR_RETURN(const v1::ListSnapshotsResponse list,
                   calls_.Call(visit.request.token, &v1::SnapshotService::Stub::ListSnapshots, {}));
  RowsHtml rows;
  for (const v1::Snapshot& snapshot : list.snapshots()) {
    rows.push_back({absl::StrCat(snapshot.number()),
                    absl::StrCat("<code>", EscapeXml(snapshot.digest()), "</code>"),
                    absl::StrCat(snapshot.record_count()),
                    BytesText(static_cast<double>(snapshot.bytes())),
                    absl::StrCat(snapshot.newest() ? "newest " : "",
                                 snapshot.pinned() ? "pinned " : "", EscapeXml(snapshot.note())),
                    AgoHtml(snapshot.published_unix_ms())});
  }
  return ReplyOf(
      "Snapshots",
      absl::StrCat(
          list.problem().empty() ? ""
                                 : absl::StrCat("<p><b>", EscapeXml(list.problem()), "</b></p>\n"),
          CardHtml("Newest first",
                   TableHtml({"number", "digest", "records", "size", "", "published"}, rows,
                             "None yet: a snapshot is written after each publish."))));
}

}  // namespace tune::client
