// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared_headers.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/near_name.h"
#include "kernels/catalogue_files.h"

namespace tune {
namespace {

// A quoted value of the spec's field `headers`.
struct HeaderValue {
  size_t begin = 0;  // of the opening quote
  size_t end = 0;    // after the closing one
  bool is_in_list = false;
};

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

size_t EndOfQuoted(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && text[end] != text[begin]) end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

// Scans protobuf's text format no further than needed to tell the spec's own `headers` from texts,
// comments and the fields of nested messages. A text that is no spec yields some values or none.
std::vector<HeaderValue> FindHeaderValues(std::string_view text) {
  std::vector<HeaderValue> found;
  std::string_view field;
  int depth = 0;
  bool is_in_list = false;
  size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    size_t end = i + 1;
    if (c == '#') {
      end = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      end = EndOfQuoted(text, i);
      const bool is_whole = end > i + 1 && text[end - 1] == c;
      if (depth == 0 && field == "headers" && is_whole) found.push_back({i, end, is_in_list});
    } else if (IsWordCharacter(c)) {
      while (end < text.size() && IsWordCharacter(text[end])) ++end;
      if (depth == 0) field = text.substr(i, end - i);
    } else if (c == '{' || c == '<') {
      ++depth;
    } else if (c == '}' || c == '>') {
      --depth;
    } else if (c == '[' || c == ']') {
      is_in_list = c == '[';
    }
    i = end;
  }
  return found;
}

// The names that a header includes by quotes.
std::vector<std::string> IncludedIn(const std::string& text) {
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    for (const absl::string_view part : {"#", "include", "\""}) {
      line = absl::StripLeadingAsciiWhitespace(line);
      if (!absl::ConsumePrefix(&line, part)) line = "";
    }
    const size_t end = line.find('"');
    if (end != absl::string_view::npos) names.emplace_back(line.substr(0, end));
  }
  return names;
}

class SpecResolver {
 public:
  SpecResolver(const std::string& spec_name, const std::string& spec_text,
               const ReadSharedHeader& read)
      : spec_name_(spec_name), spec_text_(spec_text), read_(read) {}

  absl::StatusOr<ResolvedSpec> Resolve() {
    const std::vector<HeaderValue> values = FindHeaderValues(spec_text_);
    std::vector<std::string> names;  // empty: a file of the folder's own
    for (const HeaderValue& value : values) {
      absl::StatusOr<std::string> name = SharedName(value);
      if (!name.ok()) return name.status();
      named_.insert(*name);
      names.push_back(*std::move(name));
    }
    size_t copied = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (names[i].empty()) continue;
      std::vector<std::string> needed;
      const absl::Status added = AddWithIncluded(names[i], needed);
      if (!added.ok()) return added;
      const std::string list = absl::StrCat("\"", absl::StrJoin(needed, "\", \""), "\"");
      const bool needs_brackets = needed.size() > 1 && !values[i].is_in_list;
      absl::StrAppend(&resolved_.text, spec_text_.substr(copied, values[i].begin - copied),
                      needs_brackets ? absl::StrCat("[", list, "]") : list);
      copied = values[i].end;
    }
    resolved_.text += spec_text_.substr(copied);
    return std::move(resolved_);
  }

 private:
  absl::StatusOr<std::string> SharedName(const HeaderValue& value) const {
    const std::string whole = spec_text_.substr(value.begin + 1, value.end - value.begin - 2);
    absl::string_view name = whole;
    if (!absl::ConsumePrefix(&name, "<")) return "";
    if (absl::ConsumePrefix(&name, "kernels/") && absl::ConsumeSuffix(&name, ">") &&
        SharedHeaders().count(std::string(name)) > 0) {
      return std::string(name);
    }
    std::vector<std::string> known;
    for (const auto& [one, text] : SharedHeaders()) {
      known.push_back(absl::StrCat("<kernels/", one, ">"));
    }
    const auto start = spec_text_.begin();
    const auto place = start + static_cast<ptrdiff_t>(value.begin);
    const auto line = std::count(start, place, '\n') + 1;
    const size_t line_start = value.begin == 0 ? 0 : spec_text_.rfind('\n', value.begin - 1) + 1;
    return absl::InvalidArgumentError(absl::StrCat(
        spec_name_, ":", line, ":", value.begin - line_start + 1, ": headers: no shared header '",
        whole, "'; there is ", absl::StrJoin(known, ", "), DidYouMean(whole, known)));
  }

  // Appends to `needed`, in the order in which a compiler would read them.
  absl::Status AddWithIncluded(const std::string& name, std::vector<std::string>& needed) {
    if (resolved_.headers.count(name) == 0) {
      absl::StatusOr<std::string> text = read_(name);
      if (!text.ok()) return text.status();
      const std::vector<std::string> included = IncludedIn(*text);
      resolved_.headers[name] = *std::move(text);
      for (const std::string& inner : included) {
        if (SharedHeaders().count(inner) == 0) {
          return absl::InvalidArgumentError(
              absl::StrCat(spec_name_, ": the shared header '", name, "' includes \"", inner,
                           "\", which is none: a shared header may include shared headers alone"));
        }
        if (named_.count(inner) > 0 || resolved_.headers.count(inner) > 0) continue;
        const absl::Status added = AddWithIncluded(inner, needed);
        if (!added.ok()) return added;
      }
    }
    needed.push_back(name);
    return absl::OkStatus();
  }

  const std::string& spec_name_;
  const std::string& spec_text_;
  const ReadSharedHeader& read_;
  std::set<std::string> named_;  // by the spec itself
  ResolvedSpec resolved_;
};

}  // namespace

const std::map<std::string, std::string_view>& SharedHeaders() {
  static const auto* const kHeaders = [] {
    auto* headers = new std::map<std::string, std::string_view>;
    for (const CatalogueFile* file = SharedHeaderFiles(); file->folder != nullptr; ++file) {
      headers->emplace(file->name, *file->text);
    }
    return headers;
  }();
  return *kHeaders;
}

absl::StatusOr<ResolvedSpec> ResolveSharedHeaders(const std::string& spec_name,
                                                  const std::string& spec_text,
                                                  const ReadSharedHeader& read) {
  return SpecResolver(spec_name, spec_text, read).Resolve();
}

absl::Status SharedHeaderClash(const std::string& path, const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' has the name of the shared header <kernels/", name,
                   ">, which the spec needs: rename the file, or name no shared header that is or "
                   "includes '",
                   name, "'"));
}

}  // namespace tune
