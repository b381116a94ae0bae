// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/include_check.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tuner/status_macros.h"

namespace tune::cuda {
namespace {

constexpr absl::string_view kDirectives[] = {"include_next", "include", "import", "embed"};
constexpr absl::string_view kQueries[] = {"__has_include_next", "__has_include", "__has_embed"};

// The text after the first phases of translation: other spellings of '#' replaced, continued lines
// joined.
std::string Joined(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (absl::ConsumePrefix(&text, "\?\?=") || absl::ConsumePrefix(&text, "%:")) {
      out += '#';
      continue;
    }
    absl::string_view rest = text;
    if (absl::ConsumePrefix(&rest, "\\") || absl::ConsumePrefix(&rest, "\?\?/")) {
      while (!rest.empty() && absl::StrContains(" \t\r\f\v", rest.front())) rest.remove_prefix(1);
      if (absl::ConsumePrefix(&rest, "\n")) {
        text = rest;
        continue;
      }
    }
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

// Past blanks and block comments; a comment in a directive may span lines.
absl::string_view SkipBlanks(absl::string_view text) {
  while (!text.empty()) {
    if (absl::StrContains(" \t\r\f\v", text.front())) {
      text.remove_prefix(1);
    } else if (absl::ConsumePrefix(&text, "/*")) {
      const size_t end = text.find("*/");
      text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 2);
    } else {
      break;
    }
  }
  return text;
}

bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// `text` begins where a header's name should.
absl::Status CheckName(absl::string_view text, const std::string& file) {
  text = SkipBlanks(text);
  const absl::string_view line = text.substr(0, text.find('\n'));
  auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": include of ", line.substr(0, 80), ": ",
                                                   why,
                                                   "; headers come with the kernel, or are "
                                                   "CUDA's by their plain names"));
  };
  if (line.empty() || (line.front() != '"' && line.front() != '<')) {
    return refuse("only \"name\" and <name> are allowed");
  }
  const size_t end = line.find(line.front() == '<' ? '>' : '"', 1);
  if (end == absl::string_view::npos) return refuse("the name does not end");
  const absl::string_view name = line.substr(1, end - 1);
  if (name.empty() || name.front() == '/' || name.front() == '~') return refuse("absolute path");
  if (absl::StrContains(name, '\\')) return refuse("backslash in a path");
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part == "..") return refuse("path with '..'");
  }
  return absl::OkStatus();
}

// A directive's '#' is the first thing on its line but for blanks and comments.
bool MayBeginDirective(absl::string_view text, size_t at) {
  const size_t line = text.substr(0, at).rfind('\n');
  absl::string_view before = text.substr(0, at);
  if (line != absl::string_view::npos) before.remove_prefix(line + 1);
  before = absl::StripTrailingAsciiWhitespace(before);
  return before.empty() || absl::EndsWith(before, "*/");
}

// As in `#ifdef __has_include`, which asks about the preprocessor and not about a file.
bool IsTestedForBeingDefined(absl::string_view text, size_t at) {
  absl::string_view before = absl::StripTrailingAsciiWhitespace(text.substr(0, at));
  if (absl::ConsumeSuffix(&before, "(")) before = absl::StripTrailingAsciiWhitespace(before);
  return absl::EndsWith(before, "ifdef") || absl::EndsWith(before, "ifndef") ||
         absl::EndsWith(before, "defined");
}

absl::Status CheckText(absl::string_view source, const std::string& file) {
  const std::string joined = Joined(source);
  const absl::string_view text = joined;
  for (size_t at = text.find('#'); at != absl::string_view::npos; at = text.find('#', at + 1)) {
    if (!MayBeginDirective(text, at)) continue;
    absl::string_view rest = SkipBlanks(text.substr(at + 1));
    for (absl::string_view directive : kDirectives) {
      if (!absl::ConsumePrefix(&rest, directive)) continue;
      if (rest.empty() || !IsWord(rest.front())) RETURN_IF_ERROR(CheckName(rest, file));
      break;
    }
  }
  for (absl::string_view query : kQueries) {
    for (size_t at = text.find(query); at != absl::string_view::npos;
         at = text.find(query, at + 1)) {
      absl::string_view rest = text.substr(at + query.size());
      if (!rest.empty() && IsWord(rest.front())) continue;
      rest = SkipBlanks(rest);
      if (absl::ConsumePrefix(&rest, "(")) {
        RETURN_IF_ERROR(CheckName(rest, file));
      } else if (!IsTestedForBeingDefined(text, at)) {
        return absl::InvalidArgumentError(
            absl::StrCat(file, ": ", query, " is allowed only as ", query, "(\"name\")"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIncludes(const CompilePlan& plan) {
  RETURN_IF_ERROR(CheckText(plan.source_text, plan.source_name));
  for (const SourceFile& header : plan.headers) {
    RETURN_IF_ERROR(CheckText(header.text, header.name));
  }
  return absl::OkStatus();
}

}  // namespace tune::cuda
