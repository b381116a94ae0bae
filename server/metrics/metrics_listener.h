// SPDX-License-Identifier: Apache-2.0
// Serves /metrics by HTTP on the loopback, for a Prometheus of this host. It has no users, so it
// listens nowhere else. One thread answers up to 16 clients, each within a deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::server {

// INVALID_ARGUMENT: the address is no port of 127.0.0.1 or ::1.
absl::Status CheckLoopback(const std::string& address);

class MetricsListener {
 public:
  // `text` is called for each scrape, one at a time. FAILED_PRECONDITION: the port is taken.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(const std::string& address,
                                                                std::function<std::string()> text);
  ~MetricsListener();                                      // cuts off a scrape that is answered
  const std::string& address() const { return address_; }  // with the port that was really taken

 private:
  class Loop;
  MetricsListener(std::unique_ptr<Loop> loop, std::string address);

  const std::unique_ptr<Loop> loop_;
  const std::string address_;
  std::thread thread_;
};

}  // namespace tune::server
