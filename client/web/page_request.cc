// SPDX-License-Identifier: Apache-2.0
#include "client/web/page_request.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

absl::StatusOr<std::string> Decoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    if (digits.size() < 2 || !absl::ascii_isxdigit(static_cast<unsigned char>(digits[0])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(digits[1]))) {
      return absl::InvalidArgumentError("the address has a % that begins no escape such as %3A");
    }
    decoded += absl::HexStringToBytes(digits);
    i += 2;
  }
  // Whatever a terminal would have to escape is in no address of ours.
  if (Printable(decoded) != decoded || decoded.find_first_of("\t\n") != std::string::npos) {
    return absl::InvalidArgumentError("the address has characters that cannot be printed");
  }
  return decoded;
}

}  // namespace

absl::StatusOr<PageRequest> ParseTarget(absl::string_view target) {
  target = target.substr(0, target.find('#'));
  if (target.empty() || target[0] != '/') {
    return absl::InvalidArgumentError("the address is no path that begins with /");
  }
  const size_t mark = target.find('?');
  PageRequest request;
  ASSIGN_OR_RETURN(request.path, Decoded(target.substr(0, mark)));
  if (mark == absl::string_view::npos) return request;
  for (absl::string_view pair : absl::StrSplit(target.substr(mark + 1), '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    ASSIGN_OR_RETURN(std::string name, Decoded(parts.first));
    ASSIGN_OR_RETURN(std::string value, Decoded(parts.second));
    request.query.emplace(std::move(name), std::move(value));
  }
  return request;
}

bool IsLoopbackHost(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) {
    return absl::ConsumePrefix(&host, "::1]") && (host.empty() || host[0] == ':');
  }
  host = host.substr(0, host.find(':'));
  if (absl::AsciiStrToLower(host) == "localhost") return true;
  const std::vector<absl::string_view> bytes = absl::StrSplit(host, '.');
  int number = 0;
  if (bytes.size() != 4 || bytes[0] != "127") return false;
  for (const absl::string_view byte : bytes) {
    if (!absl::SimpleAtoi(byte, &number) || number < 0 || number > 255) return false;
  }
  return true;
}

std::string EscapedForUrl(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '_' || c == '.') {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, "%", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  return escaped;
}

}  // namespace tune::client
