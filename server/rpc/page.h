// SPDX-License-Identifier: Apache-2.0
// Pages of lists that have the newest first. The token of a page is the id of the last row before
// it, so a page stays the same while rows are added.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tune::server {

struct Page {
  static constexpr uint32_t kLimitMax = 1000;

  uint32_t limit = 0;
  int64_t before_id = 0;  // rows with smaller ids are on the page
};

// The page that a List request with `limit` and `page_token` asks for. INVALID_ARGUMENT.
template <typename Request>
absl::StatusOr<Page> PageOf(const Request& request, uint32_t default_limit = 50) {
  Page page{.limit = request.limit() == 0 ? default_limit : request.limit(),
            .before_id = std::numeric_limits<int64_t>::max()};
  if (page.limit > Page::kLimitMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("limit ", page.limit, " is over ", Page::kLimitMax, "; use page_token"));
  }
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &page.before_id)) {
    return absl::InvalidArgumentError("page_token is of no page: take it from next_page_token");
  }
  return page;
}

}  // namespace tune::server
