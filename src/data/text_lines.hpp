// A text input as windows of whole lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "data/input.hpp"
#include "data/scratch.hpp"

namespace truemax {

class LineWindows {
 public:
  // `bytes`: about so much at a time; a longer line makes its window longer.
  LineWindows(Input& input, std::size_t bytes) : input_(&input), bytes_(bytes) {}

  // Reads the next lines into `buffer`; empty at the end. What it returns ends in a newline, also where the
  // file does not, and is valid until the buffer is used again.
  std::string_view read(Scratch<char>& buffer);

 private:
  Input* input_;
  std::size_t bytes_;
  std::string rest_;  // the beginning of a line that the last window did not hold to its end
  bool at_end_ = false;
};

}  // namespace truemax
