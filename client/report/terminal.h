// SPDX-License-Identifier: Apache-2.0
// Tables, colour and the live line: what depends on whether a person is looking. And the one place
// where text leaves for a terminal.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/printable.h"

namespace tune::client {

// While it lives, all that goes to the C streams stdout and stderr is made Printable on its way; of
// escape codes only those of Bold and Dim get through, on stdout. Not thread-safe; one at a time.
class OutputFilter {
 public:
  OutputFilter();
  ~OutputFilter();

  // Writes what standard output holds back. Its first error, an errno; 0: all was written. A reader
  // that went away is none.
  int Flush();

 private:
  class Stream;
  std::unique_ptr<Stream> out_, err_;
};

// Is stderr a terminal whose last line may be redrawn?
bool IsInteractive();

// Bold or dim on a terminal, plain elsewhere and when NO_COLOR is set. For stdout, where
// OutputFilter puts the escape codes in.
std::string Bold(const std::string& text);
std::string Dim(const std::string& text);

// Columns aligned by content; columns of numbers to the right. The last
// column is never padded.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  void Add(std::vector<std::string> cells);
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A line at the bottom of stderr, redrawn in place; cut to the terminal's width.
class LiveLine {
 public:
  ~LiveLine() { Clear(); }
  void Show(const std::string& text);
  void Clear();

 private:
  bool shown_ = false;
};

// The progress of a command on stderr: a live line on a terminal, elsewhere a line now and then.
class ProgressMeter {
 public:
  // Shows nothing if `quiet`. Plain lines are at least `every` apart; the first comes at once, or
  // after that time if `late`.
  explicit ProgressMeter(bool quiet, std::chrono::seconds every = std::chrono::seconds(5),
                         bool late = false);
  // Prints also a plain line that comes too early if `always`.
  void Show(const std::string& text, bool always = false);
  void Clear() { line_.Clear(); }

 private:
  const bool quiet_;
  const std::chrono::seconds every_;
  std::chrono::steady_clock::time_point next_;
  LiveLine line_;
};

// Appends "title     value" to `text`, unless the value is empty.
void AddLine(std::string& text, const std::string& title, const std::string& value,
             size_t width = 10);

}  // namespace tune::client
