// SPDX-License-Identifier: Apache-2.0
// Tells systemd how the daemon is, as sd_notify(3) describes: a datagram to $NOTIFY_SOCKET. Without
// systemd it does nothing.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tune {

// "READY=1", "STOPPING=1", "WATCHDOG=1". Never blocks.
void NotifySystemd(absl::string_view state);
// Half of the time within which systemd wants a "WATCHDOG=1"; nullopt: it wants none.
std::optional<absl::Duration> WatchdogPeriod();

}  // namespace tune
