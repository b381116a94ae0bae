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
#include "base/status_macros.h"

namespace tune::server {

struct Page {
  static constexpr uint32_t kLimitMax = 1000;

  uint32_t limit = 0;
  int64_t before_id = 0;  // rows with smaller ids are on the page
};

inline absl::Status NotAPage() {
  return absl::InvalidArgumentError("page_token is of no page: take it from next_page_token");
}

// The most rows of a page. INVALID_ARGUMENT.
template <typename Request>
absl::StatusOr<uint32_t> PageLimit(const Request& request, uint32_t default_limit) {
  if (request.limit() == 0) return default_limit;
  if (request.limit() <= Page::kLimitMax) return request.limit();
  return absl::InvalidArgumentError(
      absl::StrCat("limit ", request.limit(), " is over ", Page::kLimitMax, "; use page_token"));
}

// The page that a List request with `limit` and `page_token` asks for. INVALID_ARGUMENT.
template <typename Request>
absl::StatusOr<Page> PageOf(const Request& request, uint32_t default_limit = 50) {
  Page page{.before_id = std::numeric_limits<int64_t>::max()};
  ASSIGN_OR_RETURN(page.limit, PageLimit(request, default_limit));
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &page.before_id)) {
    return NotAPage();
  }
  return page;
}

}  // namespace tune::server
