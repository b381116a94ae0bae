// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/ptx_module.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/ptx_parameters.h"

namespace tune::cuda {
namespace {

// Blanks in the place of comments, so that lines keep their numbers.
std::string WithoutComments(absl::string_view text) {
  std::string plain(text);
  for (size_t at = 0; at + 1 < plain.size(); ++at) {
    const bool line = plain[at] == '/' && plain[at + 1] == '/';
    const bool block = plain[at] == '/' && plain[at + 1] == '*';
    if (!line && !block) continue;
    const size_t found = line ? plain.find('\n', at) : plain.find("*/", at + 2);
    const size_t end = found == std::string::npos ? plain.size() : found + (block ? 2 : 0);
    for (; at < end; ++at) {
      if (plain[at] != '\n') plain[at] = ' ';
    }
    --at;
  }
  return plain;
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '$' ||
         c == '%';
}

class PtxReader {
 public:
  PtxReader(const std::string& name, absl::string_view text)
      : name_(name), text_(WithoutComments(text)) {}

  absl::StatusOr<PtxModule> Read() {
    PtxModule module;
    for (std::string word = NextWord(); !word.empty(); word = NextWord()) {
      if (word == ".version") module.version = NextWord();
      if (word == ".target") module.target = NextWord();
      if (word == ".address_size" && NextWord() != "64") {
        return Error(".address_size must be 64: buffers are passed as 64-bit addresses");
      }
      if (word == ".entry") RETURN_IF_ERROR(ReadEntry(module));
    }
    if (module.version.empty()) return Error("no .version: this is no PTX");
    if (module.target.empty()) return Error("no .target");
    return module;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", 1 + std::count(text_.begin(), end, '\n'), ": ", what));
  }

  // Empty at the end.
  std::string NextWord() {
    while (at_ < text_.size() && !IsWordCharacter(text_[at_])) ++at_;
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // "NAME ( parameters ) .maxntid 128, 1, 1 {", from behind ".entry". With a ';' in place of the
  // body it is a declaration, which adds nothing to the definition.
  absl::Status ReadEntry(PtxModule& module) {
    EntryFacts entry{.name = NextWord()};
    const size_t body = std::min(text_.find_first_of("{;", at_), text_.size());
    const bool declared = body < text_.size() && text_[body] == ';';
    size_t end = at_;
    const size_t open = text_.find('(', at_);
    std::string list;
    if (open < body) {
      end = text_.find(')', open);
      if (end == std::string::npos) return Error("a list of parameters without an end");
      list = text_.substr(open + 1, end - open - 1);
    }
    entry.parameters =
        ParsePtxParameters(absl::StrCat(".entry ", entry.name, "(", list, ")"), entry.name);
    if (!entry.parameters.has_value()) {
      return Error(absl::StrCat("the parameters of '", entry.name, "' cannot be read"));
    }
    at_ = end;
    ReadBounds(body, entry);
    if (!declared) module.entries.push_back(std::move(entry));
    return absl::OkStatus();
  }

  void ReadBounds(size_t body, EntryFacts& entry) {
    std::string word = NextWord();
    while (at_ < body && !word.empty()) {
      const bool exact = word == ".reqntid";
      if (!exact && word != ".maxntid") {
        word = NextWord();
        continue;
      }
      int64_t threads = 1;
      int64_t length = 0;
      for (word = NextWord(); at_ <= body && absl::SimpleAtoi(word, &length); word = NextWord()) {
        threads *= std::clamp<int64_t>(length, 1, 1 << 20);
      }
      (exact ? entry.threads : entry.threads_max) = threads;
    }
    at_ = body;
  }

  const std::string name_;
  const std::string text_;
  size_t at_ = 0;
};

// 90 and 'a' of "sm_90a"; zero if it is no such thing.
std::pair<int, char> NumberOf(absl::string_view target) {
  char suffix = ' ';
  if (!target.empty() && absl::ascii_isalpha(static_cast<unsigned char>(target.back()))) {
    suffix = target.back();
    target.remove_suffix(1);
  }
  int number = 0;
  if (!absl::ConsumePrefix(&target, "sm_") || !absl::SimpleAtoi(target, &number)) return {0, ' '};
  return {number, suffix};
}

}  // namespace

absl::StatusOr<PtxModule> ReadPtx(const std::string& name, absl::string_view text) {
  return PtxReader(name, text).Read();
}

absl::Status CheckPtxTarget(const std::string& ptx_target, const std::string& target) {
  const auto [wanted, feature] = NumberOf(ptx_target);
  const auto [number, suffix] = NumberOf(target);
  if (wanted == 0) {
    return absl::InvalidArgumentError(absl::StrCat("'.target ", ptx_target, "' is no sm_<number>"));
  }
  const bool runs = feature == 'a'   ? wanted == number && suffix == 'a'
                    : feature == 'f' ? wanted / 10 == number / 10 && wanted <= number
                                     : wanted <= number;
  if (runs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("PTX of '.target ", ptx_target, "' does not run on ", target));
}

}  // namespace tune::cuda
