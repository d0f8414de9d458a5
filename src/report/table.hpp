// Aligned plain-text tables.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace truemax {

// Screen columns of a UTF-8 text, one per character.
std::size_t screen_width(const std::string& text);

class Table {
 public:
  // `left`: text columns besides the first.
  explicit Table(std::vector<std::string> header, std::set<std::size_t> left = {})
      : header_(std::move(header)), left_(std::move(left)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // The first column and those in `left` are left-aligned, all others right-aligned.
  std::string to_text() const;

 private:
  std::vector<std::string> header_;
  std::set<std::size_t> left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace truemax
