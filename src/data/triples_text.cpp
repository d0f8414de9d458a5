// Triples: lines of head, relation and tail, separated by tabs. A row has two features, the number of its
// head among the names of labels and of its relation among the words; its label is the tail.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/text.hpp"
#include "data/input.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

constexpr std::array<const char*, 3> kParts{"head", "relation", "tail"};

class TriplesParser {
 public:
  TriplesParser(Piece& piece, bool needs_tail)
      : piece_(piece),
        needs_tail_(needs_tail),
        p_(piece.text.data()),
        end_(p_ + piece.text.size()),
        binary_(has_control(piece.text)) {
    // A name takes at least two bytes, one of them a tab or a line end.
    const std::size_t names = piece.most_features(2, [](char c) { return c == '\t' || c == '\n'; }) + 1;
    index_ = piece.index.reserve(names);
    value_ = piece.value.reserve(names);
  }

  void run() {
    for (; p_ < end_; ++piece_.line_count) {
      const auto* const newline =
          static_cast<const char*>(std::memchr(p_, '\n', static_cast<std::size_t>(end_ - p_)));
      std::string_view line(p_, static_cast<std::size_t>(newline - p_));
      p_ = newline + 1;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (!line.empty()) read_triple(line);
    }
  }

 private:
  void read_triple(std::string_view line) {
    std::array<std::string_view, 3> part;
    std::size_t columns = 1;
    for (std::string_view rest = line; columns <= part.size(); ++columns) {
      const std::size_t tab = std::min(rest.find('\t'), rest.size());
      part[columns - 1] = rest.substr(0, tab);
      if (tab == rest.size()) break;
      rest.remove_prefix(tab + 1);
    }
    const bool has_tail = columns == 3;
    if (!has_tail && (columns != 2 || needs_tail_)) fail_columns(line);
    for (std::size_t i = 0; i < columns; ++i) check_name(part[i], kParts[i]);
    index_[used_] = piece_.add_name(piece_.names, part[0]);
    index_[used_ + 1] = piece_.add_name(piece_.words, part[1]);
    value_[used_] = value_[used_ + 1] = 1;
    used_ += 2;
    if (has_tail) piece_.add_label(part[2]);
    const std::uint64_t row = piece_.begin.size() - 1;
    if (row == 0 || piece_.line_count - row != line_ahead_) {
      line_ahead_ = piece_.line_count - row;
      piece_.lines.push_back({row, piece_.line_count});
    }
    piece_.end_row(used_);
  }

  [[noreturn]] void fail_columns(std::string_view line) const {
    const auto columns = static_cast<std::uint64_t>(std::count(line.begin(), line.end(), '\t')) + 1;
    throw PieceError{piece_.line_count,
                     fmt::format("{} where a triple has 3: {}", counted(columns, "column"), in_quotes(line)),
                     needs_tail_ ? "write head, relation and tail, separated by tabs"
                                 : "write head and relation, and if you like the tail, separated by tabs"};
  }

  void check_name(std::string_view name, const char* part) const {
    if (name.empty())
      throw PieceError{piece_.line_count, fmt::format("the {} has no name", part),
                       "write head, relation and tail, separated by single tabs"};
    if (name.size() > kLongestName)
      throw PieceError{piece_.line_count,
                       fmt::format("the {} has {} bytes, a name at most {}: {}", part, name.size(),
                                   kLongestName, in_quotes(name)),
                       "write one triple a line, its head, relation and tail separated by tabs"};
    if (binary_ && has_control(name))
      throw PieceError{piece_.line_count, "looks like a binary file",
                       "give a text file, or its format with --format"};
  }

  Piece& piece_;
  const bool needs_tail_;
  const char* p_;
  const char* const end_;
  const bool binary_;  // the piece has bytes that no text has
  FeatureId* index_;
  float* value_;
  std::size_t used_ = 0;
  std::uint64_t line_ahead_ = 0;  // line - row of the last rows read
};

}  // namespace

void parse_triples_piece(Piece& piece, const TextRules& rules) {
  TriplesParser(piece, rules.labels_required).run();
}

}  // namespace truemax
