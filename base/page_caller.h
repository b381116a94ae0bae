// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tune {

// The metadata of a call that the daemon's page makes for a reader: the reader's token, or "" for a
// reader of the loopback, who has none. It counts in calls of the daemon's own process alone: a
// client that sends it over a connection stays who it is.
inline constexpr char kPageCaller[] = "tune-page-caller";

}  // namespace tune
