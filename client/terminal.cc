// SPDX-License-Identifier: Apache-2.0
#include "client/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tune::client {
namespace {

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

bool IsInteractive() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr && std::string(term) != "dumb";
}

std::string Bold(const std::string& text) {
  return ColourOn() ? "\033[1m" + text + "\033[0m" : text;
}

std::string Dim(const std::string& text) {
  return ColourOn() ? "\033[2m" + text + "\033[0m" : text;
}

Table::Table(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }

void Table::Add(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
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
  std::string cut = text.substr(0, TerminalWidth() - 1);
  std::fprintf(stderr, "\r\033[K%s", cut.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void LiveLine::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace tune::client
