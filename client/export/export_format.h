// SPDX-License-Identifier: Apache-2.0
// A snapshot's records in forms that other programs read. A format is a file of this folder and a
// line in export_format.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::client {

// The input of a format: the records of one kernel on one device, by the sizes of their dims.
struct ExportRecord {
  std::vector<std::pair<std::string, int64_t>> dims;
  std::string dtype;
  nlohmann::ordered_json config;  // an object: each param with its value
  std::string confidence;
  std::string compiler;  // "NVRTC 13.0", "Triton 3.9.0"
  double latency_ns = 0;
  double default_latency_ns = 0;
};
struct ExportSource {
  std::string kernel;
  std::string device;
  std::string digest;                 // of the snapshot
  std::vector<ExportRecord> records;  // at least one, all of one source of the kernel
  std::vector<std::string> notes;     // on records that were left out
};

// The records to export. Empty or 0: any.
struct ExportChoice {
  std::string kernel;
  std::string device;  // a name, or its start where no other begins so
  std::string dtype;
  std::vector<std::pair<std::string, int64_t>> dims;  // by name
};

struct ExportedFile {
  std::string name;  // empty: the name that the user gave
  std::string text;
};
struct Exported {
  std::vector<ExportedFile> files;  // several go into the folder that the user named
  std::vector<std::string> notes;   // what was left out, and what the reader must know
};

struct ExportFormat {
  std::string name;
  std::string help;
  // INVALID_ARGUMENT: the kernel is not what the format is for.
  absl::StatusOr<Exported> (*write)(const ExportSource& source);
};

const std::vector<ExportFormat>& ExportFormats();

// The chosen records in a snapshot's text: those of the kernel's source that the snapshot names as
// today's; if it has none of that source, those of the source that was tuned last.
// INVALID_ARGUMENT: no snapshot, or several devices; NOT_FOUND: no such records.
absl::StatusOr<ExportSource> ReadExportSource(const std::string& text, const std::string& digest,
                                              const ExportChoice& choice);

absl::StatusOr<Exported> WriteTritonConfigs(const ExportSource& source);
absl::StatusOr<Exported> WriteCppHeader(const ExportSource& source);
absl::StatusOr<Exported> WriteMoeTables(const ExportSource& source);

}  // namespace tune::client
