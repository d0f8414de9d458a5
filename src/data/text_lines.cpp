#include "data/text_lines.hpp"

#include <algorithm>

namespace truemax {

std::string_view LineWindows::read(Scratch<char>& buffer) {
  std::size_t room = std::max(bytes_, 2 * rest_.size());
  char* text = buffer.reserve(room + 1);  // one more, for the newline that may be missing at the end
  std::copy(rest_.begin(), rest_.end(), text);
  std::size_t size = rest_.size();
  std::size_t searched = size;  // no newline before this place
  rest_.clear();
  while (!at_end_) {
    size += input_->read(text + size, room - size);
    at_end_ = size < room;
    if (at_end_) break;
    const std::string_view all(text, size);
    const std::size_t newline = all.substr(searched).rfind('\n');
    if (newline != std::string_view::npos) {
      const std::size_t end = searched + newline + 1;
      rest_.assign(all.substr(end));
      return all.substr(0, end);
    }
    searched = size;
    room *= 2;
    text = buffer.reserve(room + 1, size);
  }
  if (size > 0 && text[size - 1] != '\n') text[size++] = '\n';
  return {text, size};
}

}  // namespace truemax
