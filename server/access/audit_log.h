// SPDX-License-Identifier: Apache-2.0
// Who did what: a file with a line of JSON for each call that only submitters or only operators may
// make. docs/access.md has its members.
//
// A thread of its own writes the lines, so that no call waits for the disk. Once the file has
// kBytesMax it is renamed to FILE.1, and so on; the kFilesMax newest stay.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/access/principal.h"

namespace spdlog {
class async_logger;
namespace details {
class thread_pool;
}
}  // namespace spdlog

namespace google::protobuf {
class Message;
}

namespace tune::server {

// Thread-safe.
class AuditLog {
 public:
  static constexpr size_t kBytesMax = size_t{64} << 20;
  static constexpr size_t kFilesMax = 8;
  static constexpr size_t kRequestBytesMax = 1024;  // of a request's text

  // FAILED_PRECONDITION: the file cannot be opened to be appended to.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);
  // FAILED_PRECONDITION: there is no such folder. Opens nothing.
  static absl::Status CheckFolder(const std::string& path);
  // Writes what was noted.
  ~AuditLog();

  struct Act {
    const Principal& caller;
    std::string host;                                    // of the peer: an address, or "unix"
    absl::string_view path;                              // "/tune.v1.SweepService/SubmitSweep"
    const google::protobuf::Message* request = nullptr;  // null: it comes in pieces
  };
  // The queue has room for some thousand lines. Beyond that the oldest are lost, and the next line
  // says how many.
  void Note(const Act& act);

 private:
  AuditLog(std::shared_ptr<spdlog::details::thread_pool> pool,
           std::shared_ptr<spdlog::async_logger> logger);

  const std::shared_ptr<spdlog::details::thread_pool> pool_;  // ends after the logger
  const std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<size_t> lost_ = 0;  // lines, as a line said
};

}  // namespace tune::server
