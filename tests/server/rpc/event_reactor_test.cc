// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/event_reactor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tune::server {
namespace {

// Outside a call nothing is ever written, as with a client that does not read.
TEST(EventReactorTest, AClientThatDoesNotReadIsCutOff) {
  const std::shared_ptr<EventReactor<std::string>> reactor = EventReactor<std::string>::Make();
  for (int i = 0; i < 4000; ++i) reactor->Send("event");
  EXPECT_FALSE(reactor->cancelled());
  for (int i = 0; i < 1000; ++i) reactor->Send("event");
  EXPECT_TRUE(reactor->cancelled()) << "what produces the events is told to stop";
  reactor->OnDone();
}

}  // namespace
}  // namespace tune::server
