// A text input as windows of whole lines.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "data/input.hpp"
#include "data/scratch.hpp"

namespace truemax {

class LineWindows {
 public:
  // `bytes`: approximate size of a window; a longer line makes its window longer. `live`: deliver lines as
  // they arrive, however few, if waiting for more would block.
  LineWindows(Input& input, std::size_t bytes, std::shared_ptr<MemoryBudget> memory = nullptr,
              bool live = false)
      : input_(&input), bytes_(bytes), live_(live), rest_(std::move(memory)) {}

  // Reads the next lines into `buffer`; empty at the end. The result always ends in a newline, even if the
  // file does not, and is valid until the buffer is used again. Throws OverBudget if a line is longer than
  // the buffer may become.
  std::string_view read(Scratch<char>& buffer) { return read(buffer, true); }
  // The same without blocking on a live input: also empty if there is no whole line yet.
  std::string_view read_ready(Scratch<char>& buffer) { return read(buffer, false); }
  // Length of the line that did not fit the last window; 0 if all did.
  std::size_t long_line() const { return long_line_; }
  bool at_end() const { return at_end_; }  // the last lines have been delivered

 private:
  std::string_view read(Scratch<char>& buffer, bool wait);

  Input* input_;
  std::size_t bytes_;
  bool live_;
  Scratch<char> rest_;  // the start of a line that continues beyond the last window
  std::size_t rest_size_ = 0;
  std::size_t long_line_ = 0;
  bool at_end_ = false;
};

}  // namespace truemax
