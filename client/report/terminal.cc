// SPDX-License-Identifier: Apache-2.0
#include "client/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "base/descriptor.h"

namespace tune::client {
namespace {

// In text, before a letter for a style. No UTF-8 has it, so no message of a server does.
constexpr char kStyle = '\xff';
constexpr char kBold[] =
    "\xff"
    "B";
constexpr char kDim[] =
    "\xff"
    "D";
constexpr char kPlain[] =
    "\xff"
    "P";

const char* EscapeOf(char style) {
  switch (style) {
    case 'B':
      return "\033[1m";
    case 'D':
      return "\033[2m";
    case 'P':
      return "\033[0m";
    default:
      return nullptr;
  }
}

bool ColourOn() {
  static const bool on = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return on;
}

size_t TerminalWidth() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool IsNumber(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.-") == std::string::npos;
}

}  // namespace

// A C stream in the place of another one, which writes to that one's descriptor.
class OutputFilter::Stream {
 public:
  enum class Styles { kYes, kNo };
  Stream(FILE*& place, int fd, Styles styles)
      : place_(place), before_(place), fd_(fd), styles_(styles) {
    const cookie_io_functions_t functions = {.write = &Stream::Write};
    ours_ = fopencookie(this, "w", functions);
    if (ours_ == nullptr) return;
    std::fflush(before_);
    const int mode = fd == STDERR_FILENO ? _IONBF : isatty(fd) != 0 ? _IOLBF : _IOFBF;
    std::setvbuf(ours_, nullptr, mode, mode == _IONBF ? 0 : BUFSIZ);
    place_ = ours_;
  }
  int Flush() {
    if (ours_ != nullptr) std::fflush(ours_);
    return error_ == EPIPE ? 0 : error_;
  }
  void GiveBack() {
    if (ours_ == nullptr) return;
    place_ = before_;
    std::fflush(ours_);
    WriteAll(fd_, text_.Finish());
  }

 private:
  static ssize_t Write(void* stream, const char* bytes, size_t count) {
    return static_cast<Stream*>(stream)->Put({bytes, count}) ? static_cast<ssize_t>(count) : 0;
  }
  bool Put(absl::string_view text) {
    std::string out;
    while (!text.empty()) {
      if (style_next_) {
        style_next_ = false;
        if (const char* escape = EscapeOf(text[0]); escape != nullptr) {
          out += escape;
          text.remove_prefix(1);
        } else {
          out += Printable({&kStyle, 1});
        }
        continue;
      }
      const size_t at = styles_ == Styles::kYes ? text.find(kStyle) : text.npos;
      out += text_.Add(text.substr(0, at));
      if (at == text.npos) break;
      out += text_.Finish();
      style_next_ = true;
      text.remove_prefix(at + 1);
    }
    if (WriteAll(fd_, out)) return true;
    if (error_ == 0) error_ = errno;
    return false;
  }

  FILE*& place_;
  FILE* const before_;
  const int fd_;
  const Styles styles_;
  FILE* ours_ = nullptr;
  PrintableStream text_;
  bool style_next_ = false;
  int error_ = 0;  // of the first write that failed
};

int OutputFilter::Flush() { return out_->Flush(); }

OutputFilter::OutputFilter()
    : out_(std::make_unique<Stream>(stdout, STDOUT_FILENO, Stream::Styles::kYes)),
      err_(std::make_unique<Stream>(stderr, STDERR_FILENO, Stream::Styles::kNo)) {}

OutputFilter::~OutputFilter() {
  // They live on: a log that was started meanwhile writes to one of them to the end.
  for (std::unique_ptr<Stream>* stream : {&out_, &err_}) stream->release()->GiveBack();
}

bool IsInteractive() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr && std::string(term) != "dumb";
}

std::string Bold(const std::string& text) { return ColourOn() ? kBold + text + kPlain : text; }

std::string Dim(const std::string& text) { return ColourOn() ? kDim + text + kPlain : text; }

Table::Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

void Table::Add(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
  for (std::string& cell : cells) cell = Printable(cell);  // as wide as it will be
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], rows_[r][c].size());
      if (r > 0 && !IsNumber(rows_[r][c])) right[c] = false;
    }
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string& cell = rows_[r][c];
      const std::string pad(widths[c] - cell.size(), ' ');
      if (c > 0) line += "  ";
      if (right[c]) {
        line += pad + cell;
      } else {
        line += c + 1 == columns ? cell : cell + pad;
      }
    }
    text += (r == 0 ? Dim(line) : line) + "\n";
  }
  return text;
}

void LiveLine::Show(const std::string& text) {
  // A character that is cut in two is left out.
  const std::string cut =
      PrintableStream().Add(absl::string_view(Printable(text)).substr(0, TerminalWidth() - 1));
  WriteAll(STDERR_FILENO, "\r\033[K" + cut);
  shown_ = true;
}

void LiveLine::Clear() {
  if (!shown_) return;
  WriteAll(STDERR_FILENO, "\r\033[K");
  shown_ = false;
}

ProgressMeter::ProgressMeter(bool quiet, std::chrono::seconds every, bool late)
    : quiet_(quiet), every_(every) {
  if (late) next_ = std::chrono::steady_clock::now() + every;
}

void ProgressMeter::Show(const std::string& text, bool always) {
  if (quiet_) return;
  if (IsInteractive()) return line_.Show(text);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_ && !always) return;
  next_ = now + every_;
  std::fprintf(stderr, "%s\n", text.c_str());
}

void AddLine(std::string& text, const std::string& title, const std::string& value, size_t width) {
  if (value.empty()) return;
  text += Dim(title + std::string(width - std::min(width, title.size()), ' ')) + value + "\n";
}

}  // namespace tune::client
