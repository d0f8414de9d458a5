// XMLRepository split files: one column of row numbers, from 1, for each split.
#include <fmt/format.h>

#include <charconv>

#include "core/text.hpp"
#include "data/reading_memory.hpp"
#include "data/sources.hpp"
#include "data/text_lines.hpp"

namespace truemax {
namespace {

constexpr std::string_view kSplitBlanks = " \t\r";

// The `column`-th token of the line, from 1; empty if there are fewer. `columns`: the number of tokens.
std::string_view token_of(std::string_view line, std::uint64_t column, std::uint64_t& columns) {
  std::string_view found;
  columns = 0;
  while (true) {
    const std::size_t begin = line.find_first_not_of(kSplitBlanks);
    if (begin == std::string_view::npos) return found;
    line.remove_prefix(begin);
    const std::string_view token = line.substr(0, line.find_first_of(kSplitBlanks));
    if (++columns == column) found = token;
    line.remove_prefix(token.size());
  }
}

class SplitReader {
 public:
  SplitReader(std::string name, std::uint64_t column, std::uint64_t rows, MemoryCharge memory)
      : name_(std::move(name)), column_(column), memory_(std::move(memory)) {
    memory_.set(rows * sizeof(seen_at_[0]));
    seen_at_.resize(rows, 0);
  }

  void read_line(std::string_view line) {
    ++line_;
    std::uint64_t columns = 0;
    const std::string_view token = token_of(line, column_, columns);
    if (columns == 0) return;
    if (token.empty())
      throw file_error(name_, line_, fmt::format("{} columns, but column {} was requested", columns, column_),
                       "choose another column with --split-column");
    std::uint64_t number = 0;
    const auto read = std::from_chars(token.data(), token.data() + token.size(), number);
    const bool is_number = read.ec == std::errc() && read.ptr == token.data() + token.size();
    if (!is_number || number < 1 || number > seen_at_.size())
      throw file_error(name_, line_,
                       fmt::format("{} is not a row number from 1 to {}", in_quotes(token), seen_at_.size()),
                       "check that the split file belongs to the data file");
    std::uint64_t& seen_at = seen_at_[number - 1];
    if (seen_at != 0)
      throw file_error(name_, line_, fmt::format("row {} is named here and in line {}", number, seen_at),
                       "name each row once");
    seen_at = line_;
    grow(chosen_, 1, memory_);
    chosen_.push_back(number - 1);
  }

  std::uint64_t line() const { return line_; }
  std::vector<std::uint64_t> take() {
    if (chosen_.empty()) throw file_error(name_, 0, "contains no row numbers", "check the split file");
    return std::move(chosen_);
  }

 private:
  std::string name_;
  std::uint64_t column_, line_ = 0;
  MemoryCharge memory_;
  std::vector<std::uint64_t> seen_at_;  // the line on which each row is named; 0: none yet
  std::vector<std::uint64_t> chosen_;
};

}  // namespace

std::vector<std::uint64_t> read_split(const std::string& path, std::uint64_t column, std::uint64_t rows,
                                      const std::shared_ptr<MemoryBudget>& memory) {
  std::uint64_t line = 0;
  try {
    Input input(path, memory);
    LineWindows windows(input, small_window(memory), memory);
    SplitReader reader(input.name(), column, rows, MemoryCharge(memory));
    Scratch<char> buffer(memory);
    for (auto text = windows.read(buffer); !text.empty(); text = windows.read(buffer)) {
      while (!text.empty()) {
        const std::size_t length = text.find('\n');
        reader.read_line(text.substr(0, length));
        text.remove_prefix(length + 1);
        line = reader.line();
      }
    }
    return reader.take();
  } catch (const OverBudget& over) {
    throw memory_error(over, shown_path(path), line + 1, counted(line, "row number"), kMoreMemory);
  }
}

}  // namespace truemax
