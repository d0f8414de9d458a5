// Plain-text tables that line up.
#pragma once

#include <string>
#include <vector>

namespace truemax {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // The first column to the left, all others to the right, two blanks between.
  std::string to_text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace truemax
