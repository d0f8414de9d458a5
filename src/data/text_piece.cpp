#include "data/text_piece.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/input.hpp"

namespace truemax {
namespace {

// Drops duplicates in [first, end of labels).
void keep_each_once(std::vector<std::uint32_t>& labels, std::size_t first) {
  constexpr std::size_t kFew = 64;  // up to this many are compared pairwise
  const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(first);
  const std::size_t count = labels.size() - first;
  if (count <= kFew) {
    auto to = begin;
    for (auto from = begin; from != labels.end(); ++from)
      if (std::find(begin, to, *from) == to) *to++ = *from;
    labels.erase(to, labels.end());
    return;
  }
  // Sorting by label and place puts the first of each label first; sorting by place then restores file order.
  std::vector<std::uint64_t> places(count);
  for (std::size_t i = 0; i < count; ++i) places[i] = (std::uint64_t{labels[first + i]} << 32) | i;
  std::sort(places.begin(), places.end());
  const auto last = std::unique(places.begin(), places.end(),
                                [](std::uint64_t a, std::uint64_t b) { return a >> 32 == b >> 32; });
  places.erase(last, places.end());
  for (std::uint64_t& place : places) place = (place << 32) | (place >> 32);
  std::sort(places.begin(), places.end());
  std::transform(places.begin(), places.end(), begin,
                 [](std::uint64_t place) { return static_cast<std::uint32_t>(place); });
  labels.resize(first + places.size());
}

}  // namespace

std::uint64_t Piece::bytes() const {
  constexpr std::uint64_t kMadeName = 64;
  return (begin.capacity() + label_begin.capacity()) * sizeof(begin[0]) +
         label.capacity() * sizeof(label[0]) + names.bytes() + words.bytes() + made_names.size() * kMadeName +
         lines.capacity() * sizeof(lines[0]) + widths.capacity() * sizeof(widths[0]);
}

// A line may hold any number of labels and words, so memory is charged while it is parsed.
void Piece::make_room_for_labels() {
  constexpr std::size_t kFirst = 1024;
  const std::size_t room = std::max(kFirst, 2 * label.capacity());
  if (room > kFirst) charge(room * (sizeof(label[0]) + sizeof(std::uint64_t)));  // and for keep_each_once
  label.reserve(room);
}

void Piece::clear() {
  begin.assign(1, 0);
  label_begin.assign(1, 0);
  label.clear();
  names.clear();
  words.clear();
  made_names.clear();
  lines.clear();
  line_count = 0;
  widths.clear();
  has_qid = false;
  error.reset();
}

std::uint32_t Piece::add_name(NameViews& table, std::string_view name) {
  const std::size_t known = table.size();
  const std::uint32_t number = table.add(name);
  // At powers of two the name tables double.
  constexpr std::size_t kMany = 1U << 15;
  if (table.size() > known && table.size() >= kMany && std::has_single_bit(table.size()))
    charge(table.bytes_with(table.size(), 0) - table.bytes());
  if (table.size() > known && !is_utf8(name))
    throw PieceError{line_count, fmt::format("{} is not UTF-8 text", in_quotes(name)),
                     "convert the file, for example with: iconv -f latin1 -t utf-8"};
  return number;
}

void Piece::end_row(std::uint64_t features_end) {
  if (label.size() > label_begin.back() + 1) keep_each_once(label, label_begin.back());
  begin.push_back(features_end);
  label_begin.push_back(label.size());
}

std::uint64_t Piece::line_of(std::uint64_t row) const {
  std::uint64_t line = 0;
  for (const LineMark& mark : lines) {
    if (mark.row > row) break;
    line = mark.line + (row - mark.row);
  }
  return line;
}

void parse_piece(Piece& piece, const TextRules& rules) {
  piece.clear();
  try {
    if (rules.format == Format::fasttext)
      parse_fasttext_piece(piece, rules);
    else if (rules.format == Format::text)
      parse_plain_piece(piece);
    else if (rules.format == Format::triples)
      parse_triples_piece(piece, rules);
    else
      parse_sparse_piece(piece, rules);
  } catch (PieceError& error) {
    piece.error = std::move(error);
  }
}

}  // namespace truemax
