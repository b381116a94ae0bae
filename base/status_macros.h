// SPDX-License-Identifier: Apache-2.0
// Early return on error, for absl::Status and absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The names inside are unlikely ones: RETURN_IF_ERROR(status_) must see the caller's status_.
#define RETURN_IF_ERROR(expression)                                             \
  do {                                                                          \
    if (absl::Status return_if_error_ = (expression); !return_if_error_.ok()) { \
      return return_if_error_;                                                  \
    }                                                                           \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER_(STATUS_CONCAT_(assign_or_return_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER_(holder, declaration, expression) \
  auto holder = (expression);                                    \
  if (!holder.ok()) return holder.status();                      \
  declaration = std::move(holder).value()
#define STATUS_CONCAT_(a, b) STATUS_CONCAT_INNER_(a, b)
#define STATUS_CONCAT_INNER_(a, b) a##b
