// SPDX-License-Identifier: Apache-2.0
#include "server/access/audit_log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/rotating_file_sink.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "db/token.h"
#include "google/protobuf/message.h"
#include "server/wire/utf8.h"

namespace tune::server {
namespace {

constexpr size_t kQueued = 8192;

// The text of a small request. Of a large one, such as a kernel's sources, the size.
nlohmann::json JsonOf(const google::protobuf::Message& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes > AuditLog::kRequestBytesMax) return absl::StrCat(bytes, " bytes");
  return Utf8(request.ShortDebugString());
}

}  // namespace

absl::Status AuditLog::CheckFolder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--audit-log: there is no folder ", folder.string(), "; make it first"));
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckFolder(path));
  try {
    auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kBytesMax, kFilesMax);
    auto pool = std::make_shared<spdlog::details::thread_pool>(kQueued, 1);
    auto logger = std::make_shared<spdlog::async_logger>(
        "audit", std::move(file), pool, spdlog::async_overflow_policy::overrun_oldest);
    logger->set_pattern("%v");
    logger->flush_on(spdlog::level::info);
    return std::unique_ptr<AuditLog>(new AuditLog(std::move(pool), std::move(logger)));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("--audit-log: ", error.what(), "; name a file that the daemon may write"));
  }
}

AuditLog::AuditLog(std::shared_ptr<spdlog::details::thread_pool> pool,
                   std::shared_ptr<spdlog::async_logger> logger)
    : pool_(std::move(pool)), logger_(std::move(logger)) {}

AuditLog::~AuditLog() = default;

void AuditLog::Note(const Act& act) {
  nlohmann::json line = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())},
      {"principal", Utf8(act.caller.name)},
      {"role", ToText(act.caller.role)},
      {"host", Utf8(act.host)},
      {"call", std::string(act.path)}};
  if (act.request != nullptr) line["request"] = JsonOf(*act.request);
  const size_t lost = pool_->overrun_counter();
  if (const size_t told = lost_.exchange(lost); lost > told) line["lost_before"] = lost - told;
  logger_->info(line.dump());
}

}  // namespace tune::server
