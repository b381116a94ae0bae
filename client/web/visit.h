// SPDX-License-Identifier: Apache-2.0
// A request of a page, matched to its route, and the parts that pages share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/report/html_page.h"
#include "client/web/page_request.h"
#include "client/web/pages.h"
#include "google/protobuf/repeated_field.h"

namespace tune::client {

inline constexpr uint32_t kListed = 100;  // on a page of a list

struct Visit {
  const PageRequest& request;
  int64_t id = 0;    // of the route's ID
  std::string name;  // of the route's NAME

  // A part of the query; empty if it has none.
  std::string Query(const std::string& key) const {
    const auto found = request.query.find(key);
    return found == request.query.end() ? "" : found->second;
  }
};

// The page with its links and its navigation.
PageReply ReplyOf(const PageParts& parts);
// A page of a title, which is its heading, too, and cards.
PageReply ReplyOf(const std::string& title, const std::string& cards_html);
// A link to the next page of a list; empty if the token is.
std::string OlderHtml(const std::string& path, const std::string& page_token);

template <typename Message>
std::vector<Message> VectorOf(const google::protobuf::RepeatedPtrField<Message>& messages) {
  return {messages.begin(), messages.end()};
}

}  // namespace tune::client
