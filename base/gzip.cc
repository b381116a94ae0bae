// SPDX-License-Identifier: Apache-2.0
#include "base/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib's way to ask for gzip's header
constexpr size_t kStep = 1 << 20;
constexpr size_t kShortStep = 1 << 16;  // where not all is wanted

}  // namespace

bool IsGzip(absl::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t bytes_max) {
  return GunzipUntil(bytes, "", bytes_max);
}

absl::StatusOr<std::string> GunzipUntil(absl::string_view bytes, absl::string_view end,
                                        size_t bytes_max) {
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to unpack gzip");
  }
  const size_t step = end.empty() ? kStep : kShortStep;
  std::string text;
  int code = Z_OK;
  size_t taken = 0;
  size_t found = text.npos;
  while (code == Z_OK && found == text.npos) {
    // A file may be larger than zlib's 32-bit counters.
    const size_t input = std::min(bytes.size() - taken, kStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(input);
    const size_t before = text.size();
    text.resize(before + step);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream.avail_out = static_cast<uInt>(step);
    code = inflate(&stream, Z_NO_FLUSH);
    taken += input - stream.avail_in;
    text.resize(before + step - stream.avail_out);
    if (text.size() > bytes_max) break;
    if (!end.empty()) {
      found = absl::string_view(text).find(end, before - std::min(before, end.size()));
    }
    // gzip files may be put end to end.
    if (code == Z_STREAM_END && taken < bytes.size() && IsGzip(bytes.substr(taken))) {
      code = inflateReset(&stream);
    }
  }
  inflateEnd(&stream);
  if (text.size() > bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", bytes_max >> 20, " MiB when it is unpacked"));
  }
  if (found != text.npos) {
    text.resize(found);
  } else if (code != Z_STREAM_END) {
    return absl::InvalidArgumentError("damaged or cut short (gzip)");
  }
  return text;
}

std::string Gzip(absl::string_view text) {
  z_stream stream = {};
  // Level 9; zlib's own header has no time in it.
  if (deflateInit2(&stream, 9, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string bytes;
  size_t taken = 0;
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    const size_t input = std::min(text.size() - taken, kStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + taken));
    stream.avail_in = static_cast<uInt>(input);
    const size_t before = bytes.size();
    bytes.resize(before + kStep);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + before);
    stream.avail_out = kStep;
    code = deflate(&stream, taken + input == text.size() ? Z_FINISH : Z_NO_FLUSH);
    taken += input - stream.avail_in;
    bytes.resize(before + kStep - stream.avail_out);
  }
  deflateEnd(&stream);
  return bytes;
}

}  // namespace tune
