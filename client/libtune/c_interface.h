// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the C interface: the handles, how a call fails, and how a question is
// answered. tune.cc has the clients, their answers and the watches, tune_kernel.cc the kernels,
// tune_program.cc the artifacts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/libtune/job_client.h"
#include "tune/tune.h"

struct tune_client {
  std::shared_ptr<const tune::library::JobClient> client;
};

struct tune_answer {
  std::shared_ptr<const tune::library::KeptAnswer> kept;
};

namespace tune::library {

// Keeps why a call of this thread failed, for tune_error.
tune_status Fail(tune_status status, absl::string_view why) noexcept;
tune_status Fail(const absl::Status& status) noexcept;

// Runs what may throw.
template <typename Body>
tune_status Guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Fail(TUNE_RESOURCE_EXHAUSTED, "there is no memory");
  } catch (const std::exception& error) {
    return Fail(TUNE_INTERNAL, error.what());
  }
}

// A copy for tune_free, with a zero byte after it.
char* Copy(absl::string_view data);

// Fills as much of a caller's struct as its `size` says that it has. False if it has no size.
template <typename Struct>
bool Fill(Struct from, Struct* to) {
  if (to == nullptr || to->size < sizeof(to->size)) return false;
  from.size = to->size;
  std::memcpy(to, &from, std::min<size_t>(to->size, sizeof(from)));
  return true;
}

// INVALID_ARGUMENT: a client or a question without what it must have.
absl::Status CheckQuestion(const tune_client* client, const tune_question* question);

// The answer to a question, from the client's table if it was asked before.
absl::StatusOr<std::shared_ptr<const KeptAnswer>> Ask(const tune_client* client,
                                                      const tune_question* question);

}  // namespace tune::library
