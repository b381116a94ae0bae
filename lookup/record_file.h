// SPDX-License-Identifier: Apache-2.0
// A look-up index as a file that is mapped: whoever opens it answers at once, however many records
// there are, and what nobody asks about takes no memory. It is derived from the store and can be
// made again at any time. It is read on the machine that wrote it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lookup/record.h"

namespace tune::lookup {

// What a record is in the file.
struct RecordCodec {
  std::function<std::string(const Record&)> encode;
  std::function<absl::StatusOr<Record>(absl::string_view)> decode;
};

// Immutable, also where the file's name is given to another one meanwhile. Thread-safe.
class RecordFile {
 public:
  // NOT_FOUND: there is none; DATA_LOSS: it is no such file, or not whole.
  static absl::StatusOr<std::shared_ptr<const RecordFile>> Open(const std::string& path,
                                                                RecordCodec codec);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // What is where: JSON, of index.cc and kernel_index.cc.
  absl::string_view directory() const { return directory_; }
  // DATA_LOSS: it is not within the file.
  absl::StatusOr<absl::Span<const uint64_t>> Integers(uint64_t at, uint64_t count) const;
  absl::StatusOr<absl::Span<const uint32_t>> Ranks(uint64_t at, uint64_t count) const;
  absl::StatusOr<absl::Span<const double>> Coordinates(uint64_t at, uint64_t count) const;
  absl::StatusOr<Record> ReadRecord(uint64_t at, uint64_t bytes) const;
  // As the codec wrote it; valid as long as the file.
  absl::StatusOr<absl::string_view> RecordBytes(uint64_t at, uint64_t bytes) const;

 private:
  RecordFile(const char* data, size_t size, RecordCodec codec)
      : bytes_(data, size), codec_(std::move(codec)) {}
  template <typename T>
  absl::StatusOr<absl::Span<const T>> Array(uint64_t at, uint64_t count) const;

  const absl::string_view bytes_;
  const RecordCodec codec_;
  absl::string_view directory_;
};

// Writes one beside `path` and gives it the name when it is whole and on the disk. Not thread-safe.
class RecordFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RecordFileWriter>> Create(const std::string& path);
  // Removes what was not finished.
  ~RecordFileWriter();

  // Where it lies. Errors are told by Finish.
  uint64_t Add(absl::string_view bytes);
  template <typename T>
  uint64_t AddArray(absl::Span<const T> array) {
    Align();
    return Add({reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T)});
  }
  absl::Status Finish(absl::string_view directory);

 private:
  RecordFileWriter(std::string path, std::FILE* file);
  void Align();

  const std::string path_;
  std::FILE* file_;
  uint64_t size_ = 0;
  int error_ = 0;  // the first
};

}  // namespace tune::lookup
