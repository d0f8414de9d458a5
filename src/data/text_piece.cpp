#include "data/text_piece.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/input.hpp"

namespace truemax {
namespace {

// Drops later occurrences in [first, end of labels).
void keep_each_once(std::vector<std::uint32_t>& labels, std::size_t first) {
  constexpr std::size_t kFew = 64;  // so many are compared one by one
  const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(first);
  std::unordered_set<std::uint32_t> seen;
  const bool few = labels.size() - first <= kFew;
  auto to = begin;
  for (auto from = begin; from != labels.end(); ++from) {
    const bool is_new = few ? std::find(begin, to, *from) == to : seen.insert(*from).second;
    if (is_new) *to++ = *from;
  }
  labels.erase(to, labels.end());
}

}  // namespace

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
      parse_fasttext_piece(piece);
    else
      parse_sparse_piece(piece, rules);
  } catch (PieceError& error) {
    piece.error = std::move(error);
  }
}

}  // namespace truemax
