// SPDX-License-Identifier: Apache-2.0
#include "lookup/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::lookup {
namespace {

constexpr char kMagic[8] = {'t', 'u', 'n', 'e', 'r', 'e', 'c', '1'};
constexpr size_t kAlignment = 8;

// At the start of the file; written last.
struct Header {
  char magic[8];
  uint64_t file_bytes;
  uint64_t directory_at;
  uint64_t directory_bytes;
};

absl::Status NotWhole(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, " is no index of records, or not whole"));
}

std::string PartOf(const std::string& path) { return path + ".part"; }

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordFile>> RecordFile::Open(const std::string& path,
                                                                   RecordCodec codec) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info = {};
  const bool is_file = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = static_cast<size_t>(info.st_size);
  if (!is_file || size < sizeof(Header)) {
    close(descriptor);
    return NotWhole(path);
  }
  void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  close(descriptor);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(error, absl::StrCat("cannot map ", path));
  std::shared_ptr<RecordFile> file(
      new RecordFile(static_cast<const char*>(data), size, std::move(codec)));
  Header header;
  std::memcpy(&header, data, sizeof(header));
  const bool whole = std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 &&
                     header.file_bytes == size && header.directory_at <= size &&
                     header.directory_bytes <= size - header.directory_at;
  if (!whole) return NotWhole(path);
  file->directory_ = file->bytes_.substr(header.directory_at, header.directory_bytes);
  return file;
}

RecordFile::~RecordFile() { munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

template <typename T>
absl::StatusOr<absl::Span<const T>> RecordFile::Array(uint64_t at, uint64_t count) const {
  const bool within =
      at % kAlignment == 0 && at <= bytes_.size() && count <= (bytes_.size() - at) / sizeof(T);
  if (!within) return absl::DataLossError("an index of records names what is not in it");
  return absl::Span<const T>(reinterpret_cast<const T*>(bytes_.data() + at), count);
}

absl::StatusOr<absl::Span<const uint64_t>> RecordFile::Integers(uint64_t at, uint64_t count) const {
  return Array<uint64_t>(at, count);
}

absl::StatusOr<absl::Span<const uint32_t>> RecordFile::Ranks(uint64_t at, uint64_t count) const {
  return Array<uint32_t>(at, count);
}

absl::StatusOr<absl::Span<const double>> RecordFile::Coordinates(uint64_t at,
                                                                 uint64_t count) const {
  return Array<double>(at, count);
}

absl::StatusOr<absl::string_view> RecordFile::RecordBytes(uint64_t at, uint64_t bytes) const {
  if (at > bytes_.size() || bytes > bytes_.size() - at) {
    return absl::DataLossError("a record is not within its index");
  }
  return bytes_.substr(at, bytes);
}

absl::StatusOr<Record> RecordFile::ReadRecord(uint64_t at, uint64_t bytes) const {
  ASSIGN_OR_RETURN(const absl::string_view record, RecordBytes(at, bytes));
  return codec_.decode(record);
}

absl::StatusOr<std::unique_ptr<RecordFileWriter>> RecordFileWriter::Create(
    const std::string& path) {
  const std::string part = PartOf(path);
  std::FILE* const file = std::fopen(part.c_str(), "wbe");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", part));
  return std::unique_ptr<RecordFileWriter>(new RecordFileWriter(path, file));
}

RecordFileWriter::RecordFileWriter(std::string path, std::FILE* file)
    : path_(std::move(path)), file_(file) {
  const Header none = {};
  Add({reinterpret_cast<const char*>(&none), sizeof(none)});
}

RecordFileWriter::~RecordFileWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  unlink(PartOf(path_).c_str());
}

uint64_t RecordFileWriter::Add(absl::string_view bytes) {
  const uint64_t at = size_;
  if (error_ == 0 && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    error_ = errno;
  }
  size_ += bytes.size();
  return at;
}

void RecordFileWriter::Align() {
  const char none[kAlignment] = {};
  Add({none, (kAlignment - size_ % kAlignment) % kAlignment});
}

absl::Status RecordFileWriter::Finish(absl::string_view directory) {
  Header header = {.directory_bytes = directory.size()};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.directory_at = Add(directory);
  header.file_bytes = size_;
  const std::string part = PartOf(path_);
  const bool written = error_ == 0 && std::fseek(file_, 0, SEEK_SET) == 0 &&
                       std::fwrite(&header, sizeof(header), 1, file_) == 1 &&
                       std::fflush(file_) == 0 && fsync(fileno(file_)) == 0 &&
                       rename(part.c_str(), path_.c_str()) == 0;
  if (!written) {
    return absl::ErrnoToStatus(error_ != 0 ? error_ : errno, absl::StrCat("cannot write ", part));
  }
  std::fclose(std::exchange(file_, nullptr));
  return absl::OkStatus();
}

}  // namespace tune::lookup
