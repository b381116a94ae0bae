// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/printable.h"
#include "client/report/svg_chart.h"

namespace tune::client {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// The bytes of the character at `at`, or 0 if it is not UTF-8 that XML 1.0 can hold, or
// steers a terminal.
size_t CharacterBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool beyond = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  const std::string character = text.substr(at, size);
  if (Printable(character) != character) return 0;
  const bool noncharacter = first == 0xEF && second == 0xBF && byte(at + 2) >= 0xBE;
  return overlong || beyond || noncharacter ? 0 : size;
}

}  // namespace

std::string EscapeXml(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    if (bytes == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    switch (text[at]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.append(text, at, bytes);
    }
    at += bytes;
  }
  return out;
}

std::string SiText(double value, const std::string& unit, int digits) {
  static constexpr std::array<const char*, 11> kPrefixes = {"p", "n", "\xC2\xB5", "m", "", "k",
                                                            "M", "G", "T",        "P", "E"};
  constexpr int kOne = 4;
  if (!std::isfinite(value)) return "-";
  if (value == 0) return unit.empty() ? "0" : "0 " + unit;
  int index = kOne + static_cast<int>(std::floor(std::log10(std::abs(value)) / 3 + 1e-9));
  index = std::min(std::max(index, 0), static_cast<int>(kPrefixes.size()) - 1);
  double scaled = value / std::pow(1000, index - kOne);
  // Plain fractions read better than thousandths of nothing.
  if (unit.empty() && index < kOne && std::abs(value) >= 1e-4) {
    index = kOne;
    scaled = value;
  }
  std::string number = fmt::format("{:.{}g}", scaled, digits);
  if (std::abs(scaled) >= 999.5) number = fmt::format("{:.0f}", scaled);
  const std::string suffix = std::string(kPrefixes[index]) + unit;
  return suffix.empty() ? number : number + " " + suffix;
}

}  // namespace tune::client
