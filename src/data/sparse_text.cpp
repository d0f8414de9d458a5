// Lines of labels and feature:value pairs: XMLRepository, LSHTC and libsvm.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text.hpp"
#include "data/input.hpp"
#include "data/number.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

constexpr std::size_t kMostDigits = 18;  // of a feature number: 18 digits never overflow

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

bool ends_token(char c) {
  return is_blank(c) || c == '\n' || c == '\r';
}

bool is_all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_digit);
}

std::string_view without_leading_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

// Whole numbers are one class however they are written: +1, 01, 1.0 and 1e0 are class 1.
std::string canonical_label(std::string_view token) {
  std::string_view bare = token;
  const bool negative = bare.front() == '-';
  if (negative || bare.front() == '+') bare.remove_prefix(1);
  if (const auto point = bare.find('.'); point != std::string_view::npos && point > 0 &&
                                         bare.find_first_not_of('0', point + 1) == std::string_view::npos)
    bare = bare.substr(0, point);
  if (!bare.empty() && is_all_digits(bare)) {
    bare = without_leading_zeros(bare);
    return fmt::format("{}{}", negative && bare != "0" ? "-" : "", bare);
  }
  double number = 0;
  const auto read = std::from_chars(bare.data(), bare.data() + bare.size(), number);
  const bool is_number = read.ec == std::errc() && read.ptr == bare.data() + bare.size();
  if (is_number && is_digit(bare.front()) && number == std::floor(number) && number < 0x1p53)
    return fmt::format("{}{:.0f}", negative && number > 0 ? "-" : "", number);
  return std::string(token);
}

class SparseParser {
 public:
  SparseParser(Piece& piece, const TextRules& rules)
      : piece_(piece),
        format_(rules.format),
        base_(rules.format == Format::libsvm ? 1 : 0),
        features_(rules.features),
        labels_(rules.labels),
        p_(piece.text.data()),
        end_(p_ + piece.text.size()) {
    // A feature takes at least four bytes: " 1:1".
    const std::size_t features = piece.most_features(4, [](char c) { return c == ':'; });
    index_ = piece.index.reserve(features);
    value_ = piece.value.reserve(features);
  }

  void run() {
    while (p_ < end_) {
      line_begin_ = p_;
      if (skips_line()) {
        go_to_next_line();
        continue;
      }
      read_labels();
      read_features();
      finish_row();
    }
  }

 private:
  // A blank line is a row in XMLRepository, whose header counts lines; other formats skip it.
  bool skips_line() const {
    if (format_ == Format::xmlrepository) return false;
    const char* q = p_;
    while (is_blank(*q)) ++q;
    return *q == '\n' || (*q == '\r' && q[1] == '\n') || (*q == '#' && format_ == Format::libsvm);
  }

  void go_to_next_line() {
    while (*p_ != '\n') ++p_;
    ++p_;
    ++piece_.line_count;
  }

  void skip_blanks() {
    while (is_blank(*p_)) ++p_;
  }

  bool at_line_end() const { return *p_ == '\n' || (*p_ == '\r' && p_[1] == '\n'); }

  std::string_view token_at(const char* from) const {
    const char* to = from;
    while (!ends_token(*to)) ++to;
    return {from, static_cast<std::size_t>(to - from)};
  }

  [[noreturn]] void fail(std::string found, std::string advice) const {
    const std::string_view line(line_begin_,
                                static_cast<std::size_t>(std::find(p_, end_, '\n') - line_begin_));
    if (has_control(line))
      throw PieceError{piece_.line_count, "looks like a binary file",
                       "give a text file, or its format with --format"};
    throw PieceError{piece_.line_count, std::move(found), std::move(advice)};
  }

  void read_labels() {
    if (is_blank(*p_) || at_line_end()) return;
    if (token_at(p_).find(':') != std::string_view::npos) return;  // starts with a feature: no label
    while (true) {
      const char* const from = p_;
      while (*p_ != ',' && !ends_token(*p_)) ++p_;
      add_label({from, static_cast<std::size_t>(p_ - from)});
      if (*p_ != ',') return;
      ++p_;
      if (format_ == Format::lshtc) skip_blanks();
    }
  }

  void add_label(std::string_view token) {
    if (token.empty()) fail_empty_label();
    if (add_plain_label(token)) return;
    if (format_ == Format::xmlrepository)
      add_number_label(token);
    else
      add_name_label(token);
  }

  // Fast path: nearly all labels are a few digits without a leading zero.
  bool add_plain_label(std::string_view token) {
    if (token.size() > 7 || (token.front() == '0' && token.size() > 1)) return false;
    std::uint32_t number = 0;
    for (const char c : token) {
      if (!is_digit(c)) return false;
      number = number * 10 + static_cast<std::uint32_t>(c - '0');
    }
    if (number >= labels_ || number >= Piece::kPlainLabels) return false;
    piece_.add_label(number);
    return true;
  }

  void add_number_label(std::string_view token) {
    std::uint64_t number = 0;
    const auto read = std::from_chars(token.data(), token.data() + token.size(), number);
    if (read.ec != std::errc() || read.ptr != token.data() + token.size())
      fail(fmt::format("label {} is not a whole number of 0 or more", in_quotes(token_at(token.data()))),
           "labels of this format are numbers; for named classes use --format libsvm or fasttext");
    if (number >= labels_)
      fail(fmt::format("label {} is not below the {} labels of the header", number, labels_),
           "correct the header (N D L) or the row");
    token = without_leading_zeros(token);
    if (!add_plain_label(token)) piece_.add_label(token);
  }

  void add_name_label(std::string_view token) {
    if (token.find('#') != std::string_view::npos)
      fail(fmt::format("label {} contains '#', which begins a comment", in_quotes(token)),
           "put a blank before the comment, or use a class name without '#'");
    if (token.find(':') != std::string_view::npos)
      fail(fmt::format("label {} contains ':'", in_quotes(token)),
           "a comma must be followed by a label; class names cannot contain ':'");
    const char c = token.front();
    if (!is_digit(c) && c != '+' && c != '-' && c != '.') return piece_.add_label(token);
    std::string name = canonical_label(token);
    if (add_plain_label(name)) return;
    piece_.made_names.push_back(std::move(name));
    piece_.add_label(std::string_view(piece_.made_names.back()));
  }

  [[noreturn]] void fail_empty_label() const {
    if (format_ == Format::lshtc || *p_ == ',')
      fail(fmt::format("empty label in {}", in_quotes(token_at(line_begin_))), "write labels as 1,2,3");
    fail(fmt::format("empty label in {}", in_quotes(token_at(line_begin_))),
         "write labels as 1,2,3; where blanks follow the commas, add --format lshtc");
  }

  // The hot loop of reading. It works on local copies of the members: with stores to index and value in
  // between, the compiler cannot keep members in registers.
  void read_features() {
    row_begin_ = used_;
    const char* p = p_;
    FeatureId* index = index_ + used_;
    float* value = value_ + used_;
    bool sorted = true, has_zero = false;
    std::uint64_t next = 0;  // the smallest number that keeps the row ascending
    while (true) {
      while (is_blank(*p)) ++p;
      const char* const token = p;
      std::uint64_t number = 0;
      while (is_digit(*p)) number = number * 10 + static_cast<std::uint64_t>(*p++ - '0');
      const auto digits = static_cast<std::size_t>(p - token);
      if (digits == 0 || digits > kMostDigits || *p != ':') {
        p_ = token;
        if (!read_other_token()) break;
        p = p_;
        continue;
      }
      const std::uint64_t id = number - base_;  // 0 in libsvm wraps around and exceeds every limit
      if (id >= features_) fail_feature_number(number);
      float v = 0;
      p = parse_float(p + 1, v);
      if (p == nullptr || (!ends_token(*p) && *p != '#')) fail_value(token);
      sorted &= id >= next;
      has_zero |= v == 0.0F;
      next = id + 1;
      *index++ = static_cast<FeatureId>(id);
      *value++ = v;
    }
    used_ = static_cast<std::size_t>(index - index_);
    sorted_ = sorted;
    has_zero_ = has_zero;
  }

  // Handles what is not a feature:value pair: the end of the line, a comment, qid. True if more may follow.
  bool read_other_token() {
    if (at_line_end()) return false;
    if (format_ == Format::libsvm && *p_ == '#') return false;
    if (*p_ == '\r') fail("a carriage return inside the line", "write one row per line");
    const std::string_view text = token_at(p_);
    if (format_ == Format::libsvm && text.substr(0, 4) == "qid:") {
      piece_.has_qid = true;
      p_ += text.size();
      return true;
    }
    // A number with more digits than the fast loop accepts may have leading zeros.
    const std::string_view number = text.substr(0, std::min(text.find(':'), text.size()));
    if (number.size() > kMostDigits && number.size() < text.size() && is_all_digits(number)) {
      const std::string_view bare = without_leading_zeros(number);
      p_ = bare.data();
      if (bare.size() <= kMostDigits) return true;
    }
    fail_token(text);
  }

  [[noreturn]] void fail_token(std::string_view text) const {
    const std::size_t colon = text.find(':');
    const std::string shown = in_quotes(text);
    if (colon == std::string_view::npos) {
      // A first line of numbers is probably meant as a header.
      const std::string_view line(line_begin_,
                                  static_cast<std::size_t>(std::find(p_, end_, '\n') - line_begin_));
      if (piece_.begins_file && piece_.line_count == 0 && line.find(':') == std::string_view::npos)
        fail(fmt::format("{} is not a feature:value pair", shown),
             "write features as number:value; a header is three whole numbers: rows features labels");
      fail(fmt::format("{} is not a feature:value pair", shown),
           format_ == Format::libsvm ? "write features as number:value, labels as 1,2,3 without blanks"
                                     : "write features as number:value");
    }
    if (colon == 0) fail(fmt::format("{} has no feature number", shown), "write features as number:value");
    const std::string_view number = text.substr(0, colon);
    if (number.front() == '-' && number.size() > 1 && is_all_digits(number.substr(1)))
      fail(fmt::format("feature number {} is below {}", in_quotes(number), base_),
           fmt::format("number the features from {}", base_));
    if (is_all_digits(number))
      fail(fmt::format("feature number {} is too large", in_quotes(number)),
           fmt::format("feature numbers stay below {}", kMostFeatures));
    fail(fmt::format("feature number {} is not a whole number", in_quotes(number)),
         format_ == Format::libsvm
             ? "write features as number:value; for text use fastText's form, __label__name words"
             : "write features as number:value");
  }

  [[noreturn]] void fail_feature_number(std::uint64_t number) const {
    if (format_ == Format::xmlrepository && number < kMostFeatures)
      fail(fmt::format("feature number {} is not below the {} features of the header", number, features_),
           "correct the header (N D L) or the row; features count from 0");
    if (format_ == Format::libsvm && number == 0)
      fail("feature number 0, but libsvm features count from 1",
           "if the features count from 0, add --format lshtc");
    fail(fmt::format("feature number {} is too large", number),
         fmt::format("feature numbers stay below {}", kMostFeatures));
  }

  [[noreturn]] void fail_value(const char* token) const {
    const std::string_view text = token_at(token);
    std::string_view value = text.substr(text.find(':') + 1);
    if (format_ == Format::libsvm) value = value.substr(0, value.find('#'));
    if (value.empty())
      fail(fmt::format("feature {} has no value", in_quotes(text)), "write features as number:value");
    fail(fmt::format("value {} {}", in_quotes(value), what_is_wrong_with_value(value)),
         "write a finite number, or leave the feature out where it is zero");
  }

  void finish_row() {
    if (!sorted_) sort_row();
    const std::uint64_t row = piece_.begin.size() - 1;
    if (used_ > row_begin_ && index_[used_ - 1] >= widest_) {
      widest_ = index_[used_ - 1] + 1ULL;
      piece_.widths.push_back({row, widest_});
    }
    if (has_zero_) drop_zeros();
    if (row == 0 || piece_.line_count - row != line_ahead_) {
      line_ahead_ = piece_.line_count - row;
      piece_.lines.push_back({row, piece_.line_count});
    }
    piece_.end_row(used_);
    go_to_next_line();
  }

  void sort_row() {
    row_.clear();
    for (std::size_t i = row_begin_; i < used_; ++i) row_.emplace_back(index_[i], value_[i]);
    std::sort(row_.begin(), row_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (i > 0 && row_[i].first == row_[i - 1].first)
        fail(fmt::format("feature number {} occurs twice in the row", row_[i].first + base_),
             "write each feature once");
      index_[row_begin_ + i] = row_[i].first;
      value_[row_begin_ + i] = row_[i].second;
    }
  }

  void drop_zeros() {
    std::size_t to = row_begin_;
    for (std::size_t i = row_begin_; i < used_; ++i) {
      if (value_[i] == 0.0F) continue;
      index_[to] = index_[i];
      value_[to] = value_[i];
      ++to;
    }
    used_ = to;
  }

  Piece& piece_;
  const Format format_;
  const std::uint64_t base_;  // the number of the first feature
  const std::uint64_t features_, labels_;
  const char* p_;
  const char* const end_;
  const char* line_begin_ = nullptr;
  FeatureId* index_;
  float* value_;
  std::size_t used_ = 0, row_begin_ = 0;
  bool sorted_ = true, has_zero_ = false;
  std::uint64_t widest_ = 0;      // largest feature number + 1
  std::uint64_t line_ahead_ = 0;  // line - row of the last rows read
  std::vector<std::pair<FeatureId, float>> row_;
};

}  // namespace

void parse_sparse_piece(Piece& piece, const TextRules& rules) {
  SparseParser(piece, rules).run();
}

}  // namespace truemax
