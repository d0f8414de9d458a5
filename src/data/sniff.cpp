#include "data/sniff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/cache_format.hpp"
#include "data/formats.hpp"
#include "data/input.hpp"
#include "data/number.hpp"

namespace truemax {

struct Evidence {
  bool pairs = false;          // a number:value pair in a line that begins with a number or a pair
  std::size_t rows = 0;        // lines of numeric labels followed only by pairs
  std::size_t named_rows = 0;  // the same with a name as label
  std::size_t lines = 0;       // non-empty lines
  bool several = false;        // a line with several pairs in ascending order
  bool words = false;          // something other than a pair where only pairs belong
  bool blanks = false;         // a comma followed by a blank, as in LSHTC
  bool zero = false;           // feature 0, which libsvm does not have
  bool comment = false;        // a comment or qid, as in libsvm
  bool named = false;          // a label that is not a plain number, as in libsvm
};

namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

// Cuts the next line off `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t length = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return line;
}

// Cuts the next token off `line`; empty at its end.
std::string_view take_token(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
  const std::size_t length = std::min(line.find_first_of(kSpaces), line.size());
  const std::string_view token = line.substr(0, length);
  line.remove_prefix(length);
  return token;
}

bool is_whole_number(std::string_view token) {
  return !token.empty() && std::all_of(token.begin(), token.end(), is_digit);
}

// number: or number:anything
bool is_pair(std::string_view token) {
  const std::size_t colon = token.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view number =
      token.substr(token.front() == '-' ? 1 : 0, colon - (token.front() == '-' ? 1 : 0));
  return is_whole_number(number);
}

bool is_feature_zero(std::string_view token) {
  return is_pair(token) && token.front() != '-' &&
         token.substr(0, token.find(':')).find_first_not_of('0') == std::string_view::npos;
}

// +1, 3, 1.5e3, or several of them separated by commas.
bool is_numeric_label(std::string_view token) {
  return token.find_first_not_of("0123456789+-.,eE") == std::string_view::npos &&
         std::any_of(token.begin(), token.end(), is_digit);
}

void look_at_line(std::string_view line, Evidence& evidence) {
  bool in_labels = line.empty() || kSpaces.find(line.front()) == std::string_view::npos;
  bool pairs = false, words = false, numeric = true, labelled = false, zero = false, several = false;
  std::uint64_t last = 0;
  const auto conclude = [&] {
    if (!pairs && !words && !labelled) return;
    ++evidence.lines;
    // `meet 12:30` is text, and so is `12:30 then`: only a numeric label makes it certainly a row.
    evidence.pairs |= pairs && numeric && (labelled || !words);
    evidence.zero |= zero;
    evidence.words |= words;
    evidence.several |= several;
    if (pairs && labelled && !words) ++(numeric ? evidence.rows : evidence.named_rows);
  };
  while (true) {
    const std::string_view token = take_token(line);
    if (token.empty()) return conclude();
    if (token.front() == '#') {
      evidence.comment = true;
      return conclude();
    }
    if (token.substr(0, 4) == "qid:") {
      evidence.comment = true;
    } else if (is_pair(token)) {
      std::uint64_t number = 0;
      std::from_chars(token.data(), token.data() + token.size(), number);
      several |= pairs && number > last;
      last = number;
      pairs = true;
      in_labels = false;
      zero |= is_feature_zero(token);
    } else if (in_labels) {
      const bool goes_on = token.back() == ',';
      const bool plain =
          std::all_of(token.begin(), token.end(), [](char c) { return is_digit(c) || c == ','; });
      if (goes_on && plain) evidence.blanks = true;
      if (!plain) evidence.named = true;
      numeric &= is_numeric_label(token);
      labelled = true;
      in_labels = goes_on;
    } else {
      words = true;
    }
  }
}

bool has_label_prefix(std::string_view text) {
  for (std::size_t at = text.find(kLabelPrefix); at != std::string_view::npos;
       at = text.find(kLabelPrefix, at + 1))
    if (at == 0 || kSpaces.find(text[at - 1]) != std::string_view::npos) return true;
  return false;
}

// Only whole lines or, if the first line is longer than the head, only whole tokens.
std::string_view cut_at_the_end(std::string_view text) {
  if (text.size() < kSniffBytes) return text;
  std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos) end = text.find_last_of(" \t");
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

UserError unknown_format(const std::string& name, std::string_view text) {
  if (const auto table = table_error(name, text)) return *table;
  const std::string_view line = take_line(text);
  if (std::count(line.begin(), line.end(), '\t') == 2)
    return file_error(name, 1,
                      fmt::format("unknown format: three columns separated by tabs in {}", in_quotes(line)),
                      "for triples of head, relation and tail add --format triples");
  if (line.find(':') != std::string_view::npos)
    return file_error(
        name, 1,
        fmt::format("unknown format: {} does not begin with a number, as libsvm rows do, and has no {}name",
                    in_quotes(line), kLabelPrefix),
        fmt::format("for text write {}name before the words of a row; for rows with named classes add "
                    "--format libsvm",
                    kLabelPrefix));
  return file_error(name, 1,
                    fmt::format("unknown format: neither feature:value pairs nor {}name in {}", kLabelPrefix,
                                in_quotes(line)),
                    "give the format with --format (see docs/formats.md)");
}

}  // namespace

bool looks_like_idx(std::string_view head) {
  constexpr std::string_view kTypes = "\x08\x09\x0b\x0c\x0d\x0e";
  return head.size() >= 4 && head[0] == '\0' && head[1] == '\0' &&
         kTypes.find(head[2]) != std::string_view::npos && head[3] >= 1;
}

bool looks_like_npy(std::string_view head) {
  return head.substr(0, 6) == "\x93NUMPY";
}

FileHead::FileHead(const std::string& name, std::string_view bytes, Format expected)
    : name_(name),
      bytes_(bytes),
      expected_(expected),
      binary_(looks_like_npy(bytes) || looks_like_idx(bytes) || has_control(bytes)) {
  if (binary_) return;
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  text_ = cut_at_the_end(bytes);
  std::string_view rest = text_;
  header_ = parse_xml_header(take_line(rest)).has_value();
  label_prefix_ = has_label_prefix(text_);
  // A header or a label prefix decides alone; the rest need not be read.
  if ((header_ && expected != Format::fasttext) || label_prefix_) return;
  evidence_ = std::make_unique<Evidence>();
  if (!header_) rest = text_;
  while (!rest.empty()) look_at_line(take_line(rest), *evidence_);
}

FileHead::~FileHead() = default;

bool FileHead::only_rows() const {
  return evidence_ && evidence_->rows > 1 && evidence_->rows == evidence_->lines;
}

bool FileHead::has_rows() const {
  if (!evidence_) return false;
  const Evidence& e = *evidence_;
  if (expected_ == Format::fasttext) return only_rows();
  if (e.pairs) return true;
  // Named labels need more evidence: every line has one, and some line has several features.
  if (e.named_rows > 1 && e.named_rows == e.lines && e.several) return true;
  // If the model has numbered features, that is enough, and rows without features may come first.
  return expected_ != Format::automatic && e.lines > 0 && !e.words &&
         (e.named_rows > 0 || (!e.named && !table_error(name_, text_)));
}

bool FileHead::is_cache(const FileHead& head) {
  return head.bytes_.substr(0, kCacheMagic.size()) == kCacheMagic;
}

bool FileHead::is_npy(const FileHead& head) {
  return looks_like_npy(head.bytes_);
}

bool FileHead::is_idx(const FileHead& head) {
  return looks_like_idx(head.bytes_);
}

bool FileHead::is_xmlrepository(const FileHead& head) {
  return head.header_ && (head.expected_ != Format::fasttext || (!head.label_prefix_ && head.only_rows()));
}

bool FileHead::is_fasttext(const FileHead& head) {
  // Rows of numbers are not text, even for a model of words: they are refused later with a clear message.
  return !head.binary_ && (head.label_prefix_ || (head.expected_ == Format::fasttext && !head.only_rows()));
}

bool FileHead::is_lshtc(const FileHead& head) {
  if (!head.has_rows() || head.expected_ == Format::libsvm || head.expected_ == Format::fasttext)
    return false;
  // Rows for a model of LSHTC or XMLRepository data count features from 0, as its data did.
  if (head.expected_ == Format::lshtc || head.expected_ == Format::xmlrepository) return true;
  const Evidence& e = *head.evidence_;
  return !e.comment && (e.zero || (e.blanks && !e.named));
}

bool FileHead::is_libsvm(const FileHead& head) {
  return head.has_rows();
}

bool FileHead::is_triples(const FileHead& head) {
  return !head.binary_ && head.expected_ == Format::triples;
}

bool FileHead::may_be_lshtc() const {
  const bool open = expected_ != Format::libsvm && expected_ != Format::fasttext;
  return open && evidence_ && !evidence_->comment && !evidence_->named;
}

UserError FileHead::no_known_format() const {
  if (binary_)
    return file_error(name_, 0, "looks like a binary file, and is neither idx nor npy",
                      "name a text file of rows, or idx or npy features");
  return unknown_format(name_, text_);
}

Sniffed sniff_format(const std::string& name, std::string_view bytes, Format expected) {
  const FileHead head(name, bytes, expected);
  for (const FormatInfo& info : formats())
    if (info.recognises(head)) return {info.format, info.format == Format::libsvm && head.may_be_lshtc()};
  throw head.no_known_format();
}

std::optional<XmlHeader> parse_xml_header(std::string_view line) {
  std::uint64_t numbers[3];
  for (std::uint64_t& number : numbers) {
    const std::string_view token = take_token(line);
    const auto read = std::from_chars(token.data(), token.data() + token.size(), number);
    if (token.empty() || read.ec != std::errc() || read.ptr != token.data() + token.size())
      return std::nullopt;
  }
  if (!take_token(line).empty()) return std::nullopt;
  return XmlHeader{numbers[0], numbers[1], numbers[2]};
}

}  // namespace truemax
