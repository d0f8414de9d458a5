// fastText lines: labels are the words that begin with __label__, all other words are features, and so are
// their n-grams if asked for. And plain text: words in order.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "data/input.hpp"
#include "data/reading_memory.hpp"
#include "data/sniff.hpp"
#include "data/text_ngrams.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

class FasttextParser {
 public:
  FasttextParser(Piece& piece, const NgramRule& ngrams, bool plain)
      : piece_(piece),
        p_(piece.text.data()),
        end_(p_ + piece.text.size()),
        has_ngrams_(ngrams.any()),
        ngrams_(ngrams, piece.budget()),
        plain_(plain),
        row_memory_(piece.budget()) {
    // A word takes at least two bytes; in plain text a line end is a word too.
    room_ = (plain ? 2 : 1) * piece.most_features(2, is_space);
    index_ = piece.index.reserve(room_);
    value_ = piece.value.reserve(room_);
    if (piece.text.find('\0') != std::string_view::npos) check_binary_ = true;
  }

  // Every line is a row, even an empty one, so that predictions match the text line by line.
  void run() {
    piece_.lines.push_back({0, 0});
    while (p_ < end_) {
      row_.clear();
      ngrams_.begin_line();
      read_line();
      finish_row();
    }
  }

 private:
  void read_line() {
    while (true) {
      while (*p_ != '\n' && is_space(*p_)) ++p_;
      if (*p_ == '\n') break;
      const char* const from = p_;
      while (!is_space(*p_)) ++p_;
      const std::string_view token(from, static_cast<std::size_t>(p_ - from));
      if (check_binary_ && token.find('\0') != std::string_view::npos)
        throw PieceError{piece_.line_count, "looks like a binary file",
                         "give a text file, or its format with --format"};
      if (!plain_ && token.substr(0, kLabelPrefix.size()) == kLabelPrefix)
        add_label(token.substr(kLabelPrefix.size()));
      else
        add_word(token);
    }
    ++p_;
  }

  void check_length(std::string_view word, const char* what) const {
    if (word.size() > kLongestName)
      throw PieceError{piece_.line_count,
                       fmt::format("a {} has {} bytes, the longest may have {}: {}", what, word.size(),
                                   kLongestName, in_quotes(word)),
                       "separate words by blanks"};
  }

  void add_word(std::string_view word) {
    check_length(word, "word");
    const std::uint32_t number = piece_.add_name(piece_.words, word);  // checks that it is UTF-8
    grow(row_, 1, row_memory_);
    row_.push_back(number);
    if (has_ngrams_) ngrams_.add_word(word, row_, row_memory_);
  }

  void add_label(std::string_view name) {
    if (name.empty())
      throw PieceError{piece_.line_count, fmt::format("label '{}' has no name", kLabelPrefix),
                       fmt::format("write labels as {}name", kLabelPrefix)};
    check_length(name, "label");
    piece_.add_label(name);
  }

  void finish_row() {
    if (plain_) {
      row_.push_back(piece_.add_name(piece_.words, kLineEnd));
      std::copy(row_.begin(), row_.end(), index_ + used_);
      std::fill_n(value_ + used_, row_.size(), 1.0F);
      used_ += row_.size();
    } else {
      count_words();
    }
    piece_.end_row(used_);
    ++piece_.line_count;
  }

  void count_words() {
    std::sort(row_.begin(), row_.end());
    if (row_.size() > room_ - used_) make_room();
    for (std::size_t i = 0; i < row_.size();) {
      std::size_t same = i;
      while (same < row_.size() && row_[same] == row_[i]) ++same;
      index_[used_] = row_[i];
      value_[used_] = static_cast<float>(same - i);
      ++used_;
      i = same;
    }
  }

  // For the row at hand, whose n-grams may be many more than its words.
  void make_room() {
    std::size_t distinct = 0;
    for (std::size_t i = 0; i < row_.size(); ++i) distinct += i == 0 || row_[i] != row_[i - 1];
    if (distinct <= room_ - used_) return;
    room_ = std::max(used_ + distinct, room_ + room_ / 2);
    index_ = piece_.index.reserve(room_, used_);
    value_ = piece_.value.reserve(room_, used_);
  }

  Piece& piece_;
  const char* p_;
  const char* const end_;
  const bool has_ngrams_;
  LineNgrams ngrams_;
  FeatureId* index_;
  float* value_;
  std::size_t used_ = 0, room_ = 0;
  bool plain_, check_binary_ = false;
  std::vector<FeatureId> row_;  // of the line at hand, with repetitions
  MemoryCharge row_memory_;
};

}  // namespace

void parse_fasttext_piece(Piece& piece, const TextRules& rules) {
  FasttextParser(piece, rules.ngrams, false).run();
}

void parse_plain_piece(Piece& piece) {
  FasttextParser(piece, NgramRule{}, true).run();
}

}  // namespace truemax
