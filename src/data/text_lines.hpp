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
  // `bytes`: about so much at a time; a longer line makes its window longer. `live`: lines are given out as
  // they come, however few, where waiting for more would be the alternative.
  LineWindows(Input& input, std::size_t bytes, std::shared_ptr<MemoryBudget> memory = nullptr,
              bool live = false)
      : input_(&input), bytes_(bytes), live_(live), rest_(std::move(memory)) {}

  // Reads the next lines into `buffer`; empty at the end. What it returns ends in a newline, also where the
  // file does not, and is valid until the buffer is used again. Throws OverBudget where a line is longer than
  // the buffer may become.
  std::string_view read(Scratch<char>& buffer) { return read(buffer, true); }
  // The same without waiting for a live input: empty also where no whole line is there yet.
  std::string_view read_ready(Scratch<char>& buffer) { return read(buffer, false); }
  // Bytes of the line for which the last window was too short; 0 where it was not.
  std::size_t long_line() const { return long_line_; }
  bool at_end() const { return at_end_; }  // the last lines have been given out

 private:
  std::string_view read(Scratch<char>& buffer, bool wait);

  Input* input_;
  std::size_t bytes_;
  bool live_;
  Scratch<char> rest_;  // the beginning of a line that the last window did not hold to its end
  std::size_t rest_size_ = 0;
  std::size_t long_line_ = 0;
  bool at_end_ = false;
};

}  // namespace truemax
