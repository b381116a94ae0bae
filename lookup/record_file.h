// SPDX-License-Identifier: Apache-2.0
// A look-up index in a mapped file. Opening takes the same time however many records there are, and
// records that no query touches take no memory. The file is derived from the store, can be rebuilt
// at any time, and is only read on the machine that wrote it.
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

// How a record is written to the file and read back.
struct RecordCodec {
  std::function<std::string(const Record&)> encode;
  std::function<absl::StatusOr<Record>(absl::string_view)> decode;
};

// Immutable, even if the file's name is given to another file meanwhile. Thread-safe.
class RecordFile {
 public:
  // NOT_FOUND: no file. DATA_LOSS: not an index file, or truncated.
  static absl::StatusOr<std::shared_ptr<const RecordFile>> Open(const std::string& path,
                                                                RecordCodec codec);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // The layout of the file: JSON, written by index.cc and kernel_index.cc.
  absl::string_view directory() const { return directory_; }
  // DATA_LOSS if the range is not within the file.
  absl::StatusOr<absl::Span<const uint64_t>> Integers(uint64_t at, uint64_t count) const;
  absl::StatusOr<absl::Span<const uint32_t>> Ranks(uint64_t at, uint64_t count) const;
  absl::StatusOr<absl::Span<const double>> Coordinates(uint64_t at, uint64_t count) const;
  absl::StatusOr<Record> ReadRecord(uint64_t at, uint64_t bytes) const;
  // The bytes that the codec wrote; valid as long as the file.
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

// Writes a file beside `path`, and renames it to `path` once it is whole and on the disk. Not
// thread-safe.
class RecordFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RecordFileWriter>> Create(const std::string& path);
  // Removes a file that was not finished.
  ~RecordFileWriter();

  // Returns the offset of the bytes. Finish reports errors.
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
