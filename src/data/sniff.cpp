#include "data/sniff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/input.hpp"
#include "data/number.hpp"

namespace truemax {
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

struct Evidence {
  bool pairs = false;          // a number:value pair was seen, in a line that begins with a number or a pair
  std::size_t rows = 0;        // lines of numbers as labels and then pairs alone
  std::size_t named_rows = 0;  // the same with a name as label
  std::size_t lines = 0;       // that are not empty
  bool several = false;        // a line with several pairs, their numbers ascending
  bool words = false;          // something else where only pairs belong
  bool blanks = false;         // a comma with a blank behind it, as LSHTC has
  bool zero = false;           // feature 0, which libsvm has not
  bool comment = false;        // a comment or qid, as libsvm has
  bool named = false;          // a label that is not a plain number, as libsvm has
};

// +1, 3, 1.5e3, several of them between commas.
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
    // `meet 12:30` is text, and `12:30 then` too: only a label that is a number makes a row beyond doubt.
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

// Only whole lines, or, where the first line is longer than all we have, only whole tokens.
std::string_view cut_at_the_end(std::string_view text) {
  if (text.size() < kSniffBytes) return text;
  std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos) end = text.find_last_of(" \t");
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

UserError unknown_format(const std::string& name, std::string_view text) {
  if (const auto table = table_error(name, text)) return *table;
  const std::string_view line = take_line(text);
  if (line.find(':') != std::string_view::npos)
    return file_error(
        name, 1,
        fmt::format("no known format: {} begins with no number, as a row of libsvm does, and has no {}name",
                    in_quotes(line), kLabelPrefix),
        fmt::format("for text write {}name before the words of a row; for rows with named classes add "
                    "--format libsvm",
                    kLabelPrefix));
  return file_error(name, 1,
                    fmt::format("no known format: neither feature:value pairs nor {}name in {}", kLabelPrefix,
                                in_quotes(line)),
                    "name the format by --format (see docs/formats.md)");
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

Sniffed sniff_format(const std::string& name, std::string_view head, Format expected) {
  if (looks_like_npy(head)) return {Format::npy};
  if (looks_like_idx(head)) return {Format::idx};
  if (has_control(head))
    throw file_error(name, 0, "looks like a binary file, and is neither idx nor npy",
                     "name a text file of rows, or idx or npy features");
  if (head.substr(0, kByteOrderMark.size()) == kByteOrderMark) head.remove_prefix(kByteOrderMark.size());
  const std::string_view text = cut_at_the_end(head);
  std::string_view rest = text;
  const bool header = parse_xml_header(take_line(rest)).has_value();
  if (header && expected != Format::fasttext) return {Format::xmlrepository};
  if (has_label_prefix(text)) return {Format::fasttext};
  Evidence evidence;
  if (!header) rest = text;
  while (!rest.empty()) look_at_line(take_line(rest), evidence);
  if (expected == Format::fasttext) {
    // Rows of numbers alone, several of them, are no text: they are refused later, as what they are.
    const bool rows = evidence.rows > 1 && evidence.rows == evidence.lines;
    if (!rows) return {Format::fasttext};
    return {header ? Format::xmlrepository : Format::libsvm};
  }
  if (!evidence.pairs) {
    // Names as labels take more to be believed: all lines have them, and some line has several features.
    const bool named = evidence.named_rows > 1 && evidence.named_rows == evidence.lines && evidence.several;
    // For a model of numbered features they need no more, and rows without features may stand first.
    const bool expects = expected != Format::automatic && evidence.lines > 0 && !evidence.words &&
                         (evidence.named_rows > 0 || (!evidence.named && !table_error(name, text)));
    if (!named && !expects) throw unknown_format(name, text);
  }
  if (expected == Format::libsvm) return {Format::libsvm};
  // Rows for a model of LSHTC or XMLRepository data count from 0 like those.
  if (expected == Format::lshtc || expected == Format::xmlrepository) return {Format::lshtc};
  if (!evidence.comment && (evidence.zero || (evidence.blanks && !evidence.named))) return {Format::lshtc};
  return {Format::libsvm, !evidence.comment && !evidence.named};
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
