// SPDX-License-Identifier: Apache-2.0
#include "db/log_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::db {
namespace {

namespace fs = std::filesystem;

// From SQLite's description of its file format, sections "WAL File Format" and "WAL-Index File
// Format".
constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;
constexpr uint32_t kMagic = 0x377f0682;  // with the last bit set: checksums of big-endian words
constexpr size_t kIndexHeaderBytes = 48;
constexpr size_t kIndexBytes = 136;  // two headers and the state of checkpoints
constexpr uint32_t kPageBytesMax = 65536;

using Salt = std::array<uint8_t, 8>;

struct Sum {
  uint32_t first = 0;
  uint32_t second = 0;
  bool operator==(const Sum&) const = default;
};

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

uint32_t Native(const uint8_t* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

static_assert(std::endian::native == std::endian::little);

void Add(const uint8_t* bytes, size_t count, bool big_endian, Sum& sum) {
  for (size_t i = 0; i + 8 <= count; i += 8) {
    const uint32_t one = big_endian ? BigEndian(bytes + i) : Native(bytes + i);
    const uint32_t two = big_endian ? BigEndian(bytes + i + 4) : Native(bytes + i + 4);
    sum.first += one + sum.second;
    sum.second += two + sum.first;
  }
}

Sum SumAt(const uint8_t* bytes) { return {BigEndian(bytes), BigEndian(bytes + 4)}; }

Salt SaltAt(const uint8_t* bytes) {
  Salt salt;
  std::copy_n(bytes, salt.size(), salt.begin());
  return salt;
}

struct Header {
  bool big_endian = false;
  uint32_t page_bytes = 0;
  Salt salt = {};
  Sum sum;
};

std::optional<Header> ParseHeader(const uint8_t* bytes) {
  Header header{.big_endian = (bytes[3] & 1) != 0,
                .page_bytes = BigEndian(bytes + 8),
                .salt = SaltAt(bytes + 16)};
  Add(bytes, 24, header.big_endian, header.sum);
  const bool whole = (BigEndian(bytes) & ~1u) == kMagic && header.sum == SumAt(bytes + 24) &&
                     header.page_bytes >= 512 && header.page_bytes <= kPageBytesMax &&
                     std::has_single_bit(header.page_bytes);
  if (!whole) return std::nullopt;
  return header;
}

// The index's description of the log it belongs to.
struct Index {
  Salt salt = {};
  uint32_t frames = 0;
  uint32_t backfilled = 0;
};

// Returns nullopt if there is no index, or its process ended while writing it.
std::optional<Index> ReadIndex(const std::string& path) {
  std::array<uint8_t, kIndexBytes> bytes = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), bytes.size())) return std::nullopt;
  Sum sum;
  Add(bytes.data(), kIndexHeaderBytes - 8, /*big_endian=*/false, sum);
  const bool twice =
      std::memcmp(bytes.data(), bytes.data() + kIndexHeaderBytes, kIndexHeaderBytes) == 0;
  const Sum stored = {Native(bytes.data() + 40), Native(bytes.data() + 44)};
  if (!twice || bytes[12] == 0 || sum != stored) return std::nullopt;
  return Index{.salt = SaltAt(bytes.data() + 32),
               .frames = Native(bytes.data() + 16),
               .backfilled = Native(bytes.data() + 2 * kIndexHeaderBytes)};
}

// Reads the log's frames one after the other.
class Frames {
 public:
  Frames(std::ifstream& file, const Header& header)
      : file_(file), header_(header), bytes_(kFrameHeaderBytes + header.page_bytes) {}

  // False at the end of the file.
  bool Next() {
    return bool(file_.read(reinterpret_cast<char*>(bytes_.data()),
                           static_cast<std::streamsize>(bytes_.size())));
  }
  bool OfThisLog() const { return SaltAt(bytes_.data() + 8) == header_.salt; }
  bool IsCommit() const { return BigEndian(bytes_.data() + 4) != 0; }
  Sum stored_sum() const { return SumAt(bytes_.data() + 16); }
  // Its checksum, given that of the frame before.
  bool Follows(Sum before) const {
    Add(bytes_.data(), 8, header_.big_endian, before);
    Add(bytes_.data() + kFrameHeaderBytes, header_.page_bytes, header_.big_endian, before);
    return before == stored_sum();
  }

 private:
  std::ifstream& file_;
  const Header header_;
  std::vector<uint8_t> bytes_;
};

// Counts the readable frames; and beyond a damaged one those that were written once it was durable:
// a frame after a later commit.
void Walk(std::ifstream& file, const Header& header, LogState& state) {
  Frames frames(file, header);
  Sum before = header.sum;
  uint64_t count = 0;
  bool whole = true;
  bool later_commit = false;
  while (frames.Next()) {
    ++count;
    const bool follows = frames.OfThisLog() && frames.Follows(before);
    before = frames.stored_sum();
    whole = whole && follows;
    if (whole && frames.IsCommit()) state.frames = state.committed = count;
    if (whole) continue;
    // Frames of a commit that failed stay behind too, but nothing follows them.
    if (follows && later_commit) state.committed = count;
    later_commit = follows && (later_commit || frames.IsCommit());
  }
}

}  // namespace

absl::StatusOr<LogState> ReadLog(const std::string& path) {
  LogState state;
  const std::optional<Index> index = ReadIndex(path + "-shm");
  std::ifstream file(path + "-wal", std::ios::binary);
  std::array<uint8_t, kHeaderBytes> bytes = {};
  std::optional<Header> header;
  if (file.is_open()) {
    file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    if (file.gcount() == static_cast<std::streamsize>(bytes.size())) {
      header = ParseHeader(bytes.data());
    }
  } else if (fs::exists(path + "-wal")) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path, "-wal"));
  }
  if (header) Walk(file, *header, state);
  // An index of another generation of the log says nothing of this one.
  if (!index || (header && index->salt != header->salt)) return state;
  state.committed = index->frames;
  state.backfilled = index->backfilled;
  // Without a log nothing lies over the database file, which has what was copied.
  if (!header) state.frames = state.backfilled;
  state.replayed = header.has_value();
  return state;
}

absl::Status CheckLog(const std::string& path) {
  ASSIGN_OR_RETURN(const LogState state, ReadLog(path));
  if (!state.damaged()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      path, "-wal, the write-ahead log, is damaged: of ", state.committed,
      " pages that were committed ", state.frames,
      " can be read, and trials of the rest would be lost. Put a backup of the database in its "
      "place, without -wal and -shm files; or start tunerd --drop-damaged-log, which keeps a copy "
      "of the log and goes on with what can be read"));
}

absl::StatusOr<std::string> DropDamagedLog(const std::string& path, int64_t now_unix_ms) {
  ASSIGN_OR_RETURN(const LogState state, ReadLog(path));
  if (!state.damaged()) return "";
  const std::string log = path + "-wal";
  const std::string copy = absl::StrCat(log, ".damaged-", now_unix_ms);
  std::error_code error;
  if (fs::exists(log, error)) fs::copy_file(log, copy, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot copy ", log, " to ", copy, ": ", error.message()));
  }
  // The database file may be newer than the readable part, whose older pages must not overlay it.
  const bool keep = state.replayed && state.frames >= state.backfilled;
  if (!keep) fs::remove(log, error);
  if (!error) fs::remove(path + "-shm", error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot remove ", log, ": ", error.message()));
  }
  return absl::StrCat("the write-ahead log was damaged: ",
                      state.committed - std::max(state.frames, state.backfilled), " of ",
                      state.committed, " committed pages are lost; a copy of it is ", copy);
}

}  // namespace tune::db
