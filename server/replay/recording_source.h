// SPDX-License-Identifier: Apache-2.0
// Recordings on the wire: files, or sweeps of our own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "tune/v1/replay.pb.h"
#include "tuner/device/replay/play.h"
#include "tuner/device/replay/recording.h"

namespace tune::server {

// INVALID_ARGUMENT: a file is no recording; the error names the file and the place.
absl::StatusOr<replay::Recording> ReadSource(const v1::RecordingSource& source);
// Reads a recording and the space of its trials. INVALID_ARGUMENT also if no trial was ok.
absl::StatusOr<replay::RecordedSpace> ReadSpace(const v1::RecordingSource& source);

v1::RecordingInfo Describe(const replay::Recording& recording);

// Recordings that a sweep may start from.
class PriorRecordings {
 public:
  static absl::StatusOr<PriorRecordings> Read(
      const google::protobuf::RepeatedPtrField<v1::RecordingSource>& sources);

  // Observations for a sweep of `recording`, as a prior. Empty if `recording` is among these
  // recordings: a recording must not be its own prior.
  std::vector<PriorObservation> For(const replay::Recording& recording) const;
  std::vector<std::string> Names() const;
  v1::Prior ToProto() const;

 private:
  size_t TrialsEach() const;

  std::vector<replay::Recording> recordings_;
};

}  // namespace tune::server
