// SPDX-License-Identifier: Apache-2.0
// Tables, colour and the live line: what depends on whether a person is looking.
#pragma once

#include <string>
#include <vector>

namespace tune::client {

// Is stderr a terminal whose last line may be redrawn?
bool IsInteractive();

// Bold or dim on a terminal, plain elsewhere and when NO_COLOR is set. For stdout.
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

// One line at the bottom of stderr, redrawn in place; cut to the terminal's width.
class LiveLine {
 public:
  ~LiveLine() { Clear(); }
  void Show(const std::string& text);
  void Clear();

 private:
  bool shown_ = false;
};

}  // namespace tune::client
