// SPDX-License-Identifier: Apache-2.0
#include "client/web/job_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/web/html.h"

namespace tune::client {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kHostile[] = "<script>alert(1)</script>\" onload='x' \x1b[2J";

v1::Job SweepJob(int64_t id, v1::JobState state, const v1::Sweep& sweep) {
  v1::Job job;
  job.set_id(id);
  job.set_kind(v1::JOB_KIND_SWEEP);
  job.set_state(state);
  job.set_device_id("cpu");
  job.add_results()->PackFrom(sweep);
  return job;
}

TEST(TableHtml, LongTextsOfATableHaveWidthToWrapIn) {
  const std::string text(100, 'x');
  const std::string html = TableHtml({"config", "link"}, {{text, LinkHtml("/" + text, "a")}}, "");
  EXPECT_THAT(html, HasSubstr(absl::StrCat("<td class=\"long\">", text, "</td><td><a ")));
}

TEST(JobTablesTest, TextOfOthersIsNeverMarkup) {
  v1::Sweep sweep;
  sweep.set_id(3);
  sweep.set_device_id(kHostile);
  sweep.mutable_progress()->set_best_latency_ns(100);
  v1::ConfigEntry& entry = *sweep.mutable_progress()->mutable_best_config()->add_entries();
  entry.set_param(kHostile);
  entry.mutable_value()->set_text(kHostile);
  v1::Job job = SweepJob(2, v1::JOB_STATE_FAILED, sweep);
  job.set_subject(kHostile);
  job.set_message(kHostile);
  job.set_owner(kHostile);
  job.set_device_id(kHostile);
  v1::Device device;
  device.set_id(kHostile);
  device.set_name(kHostile);
  device.set_message(kHostile);
  v1::Ceiling& ceiling = *device.add_ceilings();
  ceiling.set_name(kHostile);
  ceiling.set_note(kHostile);
  v1::Trial& best = *sweep.mutable_result()->mutable_best();
  *best.mutable_config() = sweep.progress().best_config();
  best.mutable_measurement()->set_latency_ns_median(100);
  for (const std::string& html :
       {WinnerHtml(sweep), UnfinishedTableHtml({job}), JobsTableHtml({job}), SweepsTableHtml({job}),
        DevicesTableHtml({device}), CeilingsTableHtml(device), ProgressHtml(sweep),
        JobFactsHtml(job), LinkHtml(kHostile, kHostile), CardHtml(kHostile, "")}) {
    EXPECT_THAT(html, Not(HasSubstr("<script"))) << html;
    EXPECT_THAT(html, Not(HasSubstr("\" onload"))) << html;
    EXPECT_THAT(html, Not(HasSubstr("\x1b"))) << html;
    EXPECT_THAT(html, HasSubstr("&lt;script")) << html;
  }
}

TEST(JobTablesTest, TheWinnerStandsBesideItsTiesAndTheDefault) {
  v1::Sweep sweep;
  EXPECT_EQ(WinnerHtml(sweep), "");
  v1::SweepResult& result = *sweep.mutable_result();
  result.set_confirm_rounds(5);
  result.mutable_best()->set_id(11);
  *result.add_ties() = result.best();
  result.add_ties()->set_id(12);
  result.mutable_default_trial()->set_id(13);
  const std::string html = WinnerHtml(sweep);
  EXPECT_THAT(html, HasSubstr("<td><b>best</b></td><td>11</td>"));
  EXPECT_THAT(html, HasSubstr("<td>tie</td><td>12</td>"));
  EXPECT_THAT(html, HasSubstr("<td>default</td><td>13</td>"));
  EXPECT_THAT(html, Not(HasSubstr("<td>tie</td><td>11</td>")));
  EXPECT_THAT(html, HasSubstr("5 rounds"));
  result.set_default_standing(v1::DEFAULT_STANDING_SAME);
  EXPECT_THAT(WinnerHtml(sweep), HasSubstr("It is the default"));
}

TEST(JobTablesTest, AWaitingJobSaysWhenItMayStart) {
  v1::Sweep running;
  running.set_id(1);
  running.mutable_progress()->set_remaining_seconds(42);
  const v1::Job first = SweepJob(7, v1::JOB_STATE_RUNNING, running);
  const v1::Job second = SweepJob(8, v1::JOB_STATE_WAITING, v1::Sweep());
  const v1::Job third = SweepJob(9, v1::JOB_STATE_WAITING, v1::Sweep());
  const std::string html = UnfinishedTableHtml({third, second, first});
  EXPECT_LT(html.find("/jobs/7"), html.find("/jobs/8"));
  EXPECT_LT(html.find("/jobs/8"), html.find("/jobs/9"));
  EXPECT_THAT(html, HasSubstr("42 s left"));
  EXPECT_THAT(html, HasSubstr("in 42 s"));
  EXPECT_THAT(html, HasSubstr("after the jobs before it"));
  EXPECT_THAT(UnfinishedTableHtml({second}), HasSubstr("next"));
}

}  // namespace
}  // namespace tune::client
