// SPDX-License-Identifier: Apache-2.0
#include "server/wire/utf8.h"

#include <algorithm>

namespace tune::server {
namespace {

// Is there a well-formed sequence of 2, 3 or 4 bytes here: no stray, overlong or surrogate form?
bool IsUtf8Sequence(const std::string& text, size_t at, size_t length) {
  if (at + length > text.size()) return false;
  const unsigned char first = static_cast<unsigned char>(text[at]);
  const unsigned char second = static_cast<unsigned char>(text[at + 1]);
  if (first < 0xc2 || first > 0xf4) return false;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return false;
  }
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xed) return second < 0xa0;
  if (first == 0xf0) return second >= 0x90;
  if (first == 0xf4) return second < 0x90;
  return true;
}

}  // namespace

std::string Utf8(const std::string& text) {
  // Whether a char has a sign is the machine's.
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) > 0; });
  if (plain) return text;
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const unsigned char first = static_cast<unsigned char>(text[at]);
    const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    const bool whole = length == 1 || IsUtf8Sequence(text, at, length);
    if (first == 0) {
      valid += "\\0";
    } else if (whole) {
      valid.append(text, at, length);
    } else {
      valid += '?';
    }
    at += whole ? length : 1;
  }
  return valid;
}

}  // namespace tune::server
