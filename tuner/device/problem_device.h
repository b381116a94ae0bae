// SPDX-License-Identifier: Apache-2.0
// The operations of a device from which a prepared problem is made (prepared_problem.h): memory for
// its buffers, the filling and checking of them, and the programs that judge. Every kind of device
// implements them once; the order in which they are used is the same on all.
//
// A device may queue what it is asked to do, as a GPU does in its stream. Operations run in the
// order of the calls; Wait returns once all are done, and only then can results be read. A call or
// Wait fails with ABORTED after a fault of a kernel, with UNAVAILABLE if the device is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/compare.h"
#include "tuner/device/device_array.h"
#include "tuner/plan.h"

namespace tune {

// Has the memory of one problem at a time. Buffers are numbered from 0. Not thread-safe.
class ProblemDevice {
 public:
  // The memory blocks of a buffer. Guards lie around kData, which kernels write; kPristine is what
  // an in-out is restored from.
  enum Part { kData, kReference, kPristine, kPartCount };

  // A program of the problem's own: its reference or its checker.
  class OwnProgram {
   public:
    virtual ~OwnProgram() = default;
    // Runs it and waits. Describes writes to the guards of its shared memory, as a clause that
    // follows its name; empty: there are none, or no such guards. INVALID_ARGUMENT: the device
    // cannot launch it so. FAILED_PRECONDITION: it went wrong otherwise.
    virtual absl::StatusOr<std::string> Run() = 0;
  };

  virtual ~ProblemDevice() = default;

  // RESOURCE_EXHAUSTED or INVALID_ARGUMENT, with the limit that a problem of this size breaks.
  virtual absl::Status CheckFits(size_t buffer_count, double bytes) const = 0;
  // Replaces a part of a buffer by memory for `plan`. The old memory may be gone even after an
  // error: SetGuards must follow a call for kData in any case. INVALID_ARGUMENT names a limit that
  // `plan` breaks, RESOURCE_EXHAUSTED: no memory.
  virtual absl::StatusOr<DeviceArray> Allocate(size_t buffer, Part part,
                                               const BufferPlan& plan) = 0;
  virtual void FreeAll() = 0;
  // Writes the guards of all buffers.
  virtual absl::Status SetGuards() = 0;

  virtual absl::Status SetBytes(const DeviceArray& out, unsigned char byte) = 0;
  virtual absl::Status Fill(const DeviceArray& out, const tune::Fill& fill, uint64_t key) = 0;
  // Copies as many bytes as `out` has.
  virtual absl::Status Copy(const DeviceArray& out, const DeviceArray& in) = 0;
  // Copies floats into a wider type.
  virtual absl::Status Widen(const DeviceArray& out, const DeviceArray& in) = 0;
  // The host's bytes must stay until the next Wait.
  virtual absl::Status Upload(const DeviceArray& out, const std::string& elements) = 0;
  virtual absl::Status Download(const DeviceArray& in, void* host) = 0;
  // The next launch finds nothing of the problem in the caches.
  virtual absl::Status FlushCache() = 0;

  // A check: BeginCheck, any number of Compare and Hash, at most one for a buffer, EndCheck, which
  // looks at the guards; then, after Wait, the results below.
  virtual absl::Status BeginCheck() = 0;
  virtual absl::Status Compare(size_t buffer, const DeviceArray& out, const DeviceArray& reference,
                               const TolerancePlan& tolerance) = 0;
  virtual absl::Status Hash(size_t buffer, const DeviceArray& in) = 0;
  virtual absl::Status EndCheck() = 0;
  virtual absl::Status Wait() = 0;

  // All zeros if the last check compared nothing, 0 if it hashed nothing.
  virtual const CompareResult& comparison(size_t buffer) const = 0;
  virtual uint64_t hash(size_t buffer) const = 0;
  // Describes writes to a buffer's guards, such as "4 bytes after it, ..."; empty: there are none.
  virtual std::string DescribeDamage(size_t buffer) const = 0;
  // Which elements of a poisoned output were never written, as a clause; empty: none, or unknown.
  virtual std::string DescribeUnwritten(const std::string& /*name*/,
                                        const DeviceArray& /*out*/) const {
    return "";
  }

  // From here on nothing may write to this part of any buffer: SealsHold is false after a write,
  // unless the write itself ends the process. Both wait.
  virtual absl::Status Seal(Part part) = 0;
  virtual absl::StatusOr<bool> SealsHold() = 0;

  // `name` must outlive the program: a crash of the process names what ran. Errors are those of
  // the device's LoadedProgram::Load.
  virtual absl::StatusOr<std::unique_ptr<OwnProgram>> Load(const Program& program,
                                                           const BufferResolver& resolve,
                                                           const char* name) = 0;
};

}  // namespace tune
