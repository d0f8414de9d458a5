#include "data/text_lines.hpp"

#include <algorithm>

namespace truemax {

std::string_view LineWindows::read(Scratch<char>& buffer, bool wait) {
  std::size_t room = std::max(bytes_, rest_size_ + rest_size_ / 2);
  char* text = buffer.reserve(room + 1);  // one more for a missing final newline
  std::copy_n(rest_.data(), rest_size_, text);
  std::size_t size = std::exchange(rest_size_, 0);
  long_line_ = 0;
  std::size_t end = 0;          // of the last whole line
  std::size_t searched = size;  // no newline between `end` and here
  while (!at_end_) {
    if (live_) {
      const bool waits = wait && end == 0;
      if (!waits && !input_->ready()) break;
      const std::size_t got = input_->read_some(text + size, room - size);
      size += got;
      at_end_ = got == 0;
    } else {
      size += input_->read(text + size, room - size);
      at_end_ = size < room;
    }
    if (at_end_) break;
    const std::size_t newline = std::string_view(text, size).substr(searched).rfind('\n');
    if (newline != std::string_view::npos) end = searched + newline + 1;
    searched = size;
    if (size < room) continue;
    if (end > 0) break;
    room += room / 2 + 1;
    long_line_ = size;
    text = buffer.reserve(room + 1, size);
  }
  if (!at_end_) {
    rest_size_ = size - end;
    std::copy_n(text + end, rest_size_, rest_.reserve(rest_size_));
    return {text, end};
  }
  if (size > 0 && text[size - 1] != '\n') text[size++] = '\n';
  return {text, size};
}

}  // namespace truemax
