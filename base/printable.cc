// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace tune {
namespace {

struct Character {
  size_t bytes = 0;   // 0: the text ends within it
  int32_t code = -1;  // -1: no UTF-8; one byte of it is taken
};

// The first character of a text that is not empty.
Character Decode(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4) return {1, -1};
  int32_t code = byte(0) & (0xFF >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if (i == text.size()) return {0, -1};
    if ((byte(i) & 0xC0) != 0x80) return {1, -1};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool none = (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF;
  return overlong || none ? Character{1, -1} : Character{bytes, code};
}

bool Steers(int32_t code) {
  if (code < 0x20) return code != '\t' && code != '\n';
  return (code >= 0x7F && code < 0xA0) ||                       // DEL and C1
         code == 0x061C || code == 0x200E || code == 0x200F ||  // marks of direction
         (code >= 0x2028 && code <= 0x202E) ||  // ends of lines, embeddings, overrides
         (code >= 0x2066 && code <= 0x206F) ||  // isolates
         (code >= 0xFFF9 && code <= 0xFFFB);    // annotations
}

// Takes characters off `text` up to its end or to one that is not whole.
std::string Consume(absl::string_view& text, bool at_end) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    Character character = Decode(text);
    const bool return_last = text == "\r";
    if (character.bytes == 0 || return_last) {
      if (!at_end) break;
      character.bytes = 1;
    }
    const absl::string_view bytes = text.substr(0, character.bytes);
    if (character.code < 0) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(bytes[0]));
    } else if (!Steers(character.code)) {
      out.append(bytes.data(), bytes.size());
    } else if (character.code >= 0x80) {
      absl::StrAppendFormat(&out, "\\u%04x", character.code);
    } else if (text.substr(0, 2) != "\r\n") {
      absl::StrAppendFormat(&out, "\\x%02x", character.code);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace

std::string Printable(absl::string_view text) { return Consume(text, true); }

std::string PrintableStream::Add(absl::string_view piece) {
  waiting_.append(piece.data(), piece.size());
  absl::string_view text = waiting_;
  std::string out = Consume(text, false);
  waiting_ = std::string(text);
  return out;
}

std::string PrintableStream::Finish() {
  std::string out = Printable(waiting_);
  waiting_.clear();
  return out;
}

}  // namespace tune
