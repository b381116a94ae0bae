// SPDX-License-Identifier: Apache-2.0
#include "base/contained.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace tune {
namespace {

absl::Status NoMemory() {
  return absl::ResourceExhaustedError(
      "it needed more memory than there was: ask for a smaller problem");
}

}  // namespace

absl::Status HandledException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return NoMemory();
  } catch (const std::length_error&) {
    return NoMemory();
  } catch (const std::exception& exception) {
    return absl::InternalError(std::string("unexpected exception: ") + exception.what());
  } catch (...) {
    return absl::InternalError("unexpected exception of no known type");
  }
}

}  // namespace tune
