#include "data/weight_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/dense_array.hpp"
#include "data/input.hpp"
#include "data/number.hpp"
#include "data/reading_memory.hpp"
#include "data/sniff.hpp"
#include "data/text_lines.hpp"

namespace truemax {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr const char* kOneNumberALine = "write one number from 0 up on each line";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

template <class Line>
void each_line(LineWindows& windows, Scratch<char>& buffer, std::uint64_t& number, const Line& line) {
  for (auto text = windows.read(buffer); !text.empty(); text = windows.read(buffer)) {
    while (!text.empty()) {
      const std::size_t length = text.find('\n');
      std::string_view content = text.substr(0, length);
      if (number == 0 && content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
      line(number + 1, content);
      ++number;
      text.remove_prefix(length + 1);
    }
  }
}

// Calls line(number, text) for each line, without newline and byte order mark.
template <class Line>
void for_each_line(Input& input, const std::shared_ptr<MemoryBudget>& memory, const Line& line) {
  LineWindows windows(input, small_window(memory), memory);
  Scratch<char> buffer(memory);
  std::uint64_t number = 0;
  try {
    each_line(windows, buffer, number, line);
  } catch (const OverBudget& over) {
    throw memory_error(over, input.name(), number + 1, counted(number, "line"), kMoreMemory);
  }
}
// Why a number is not a valid weight; empty if it is.
std::string what_is_wrong_with_weight(double value) {
  if (!std::isfinite(value)) return "is not finite";
  if (value < 0) return "is negative";
  if (value > kLargestWeight) return fmt::format("is above {:g}, the largest weight", kLargestWeight);
  if (value != 0 && value < kLeastWeight)
    return fmt::format("is below {:g}, the least weight that is not 0", kLeastWeight);
  return "";
}

// Parses a weight; throws with what is wrong.
double parse_weight(const std::string& path, std::uint64_t line, std::string_view token, const char* advice) {
  std::string_view bare = token;
  if (!bare.empty() && bare.front() == '+') bare.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  const bool whole = read.ptr == bare.data() + bare.size() && !(bare != token && bare.substr(0, 1) == "-");
  std::string wrong;
  if (read.ec == std::errc::result_out_of_range && whole)
    wrong = "is out of the range of numbers";
  else if (read.ec != std::errc() || !whole)
    wrong = "is not a number";
  else
    wrong = what_is_wrong_with_weight(value);
  if (!wrong.empty())
    throw file_error(path, line, fmt::format("weight {} {}", in_quotes(token), wrong), advice);
  return value == 0 ? 0.0 : value;  // no -0
}

RowWeights read_text(Input& input, const std::shared_ptr<MemoryBudget>& memory) {
  RowWeights weights;
  weights.memory = MemoryCharge(memory);
  weights.path = input.name();
  std::uint64_t empty_line = 0;  // the first empty line after the last weight
  for_each_line(input, memory, [&](std::uint64_t number, std::string_view line) {
    const std::size_t comment = line.find('#');
    const std::string_view token = trimmed(line.substr(0, comment));
    if (token.empty()) {
      if (comment == std::string_view::npos && empty_line == 0) empty_line = number;
      return;
    }
    if (empty_line != 0)
      throw file_error(weights.path, empty_line, "empty line between weights",
                       "give every row its weight, 0 for a row to leave out");
    grow(weights.value, 1, weights.memory);
    weights.value.push_back(parse_weight(weights.path, number, token, kOneNumberALine));
    weights.last_line = number;
  });
  if (weights.value.empty()) throw file_error(weights.path, 0, "contains no weights", kOneNumberALine);
  return weights;
}

RowWeights read_array(Input& input, const std::shared_ptr<MemoryBudget>& memory) {
  RowWeights weights;
  weights.memory = MemoryCharge(memory);
  weights.path = input.name();
  const DenseHeader header = read_dense_header(input, Format::npy);
  if (header.shape.size() != 1 || header.is_text())
    throw file_error(weights.path, 0,
                     header.is_text() ? std::string("weights are text")
                                      : fmt::format("weights of shape {}", header.shape_text()),
                     "save one number a row: a float array of shape (N,)");
  std::vector<char> buffer(header.item_bytes * ((64 << 10) / header.item_bytes));
  std::vector<double> part(buffer.size() / header.item_bytes);
  for (std::uint64_t left = header.rows(); left > 0;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, part.size()));
    const std::size_t got = input.read(buffer.data(), count * header.item_bytes) / header.item_bytes;
    decode_items(header, buffer.data(), got, part.data());
    try {
      grow(weights.value, got, weights.memory);
    } catch (const OverBudget& over) {
      throw memory_error(over, weights.path, 0, counted(weights.value.size(), "weight"), kMoreMemory);
    }
    for (std::size_t i = 0; i < got; ++i) {
      const std::string wrong = what_is_wrong_with_weight(part[i]);
      if (!wrong.empty())
        throw file_error(weights.path, 0,
                         fmt::format("row {}: weight {} {}", weights.value.size() + 1, part[i], wrong),
                         "save finite numbers from 0 up");
      weights.value.push_back(part[i] == 0 ? 0.0 : part[i]);
    }
    left -= got;
    if (got < count)
      throw file_error(
          weights.path, 0,
          fmt::format("ends after {} of its {} weights (truncated)", weights.value.size(), header.rows()),
          "check that the file is complete");
  }
  char more = 0;
  if (input.read(&more, 1) > 0)
    throw file_error(weights.path, 0, fmt::format("has more data after its {} weights", header.rows()),
                     "check that the file is one array");
  return weights;
}

std::vector<double> balanced_weights(const ClassList& classes) {
  double total = 0;
  for (ClassId k = 0; k < classes.size(); ++k) total += classes.count(k);
  std::vector<double> weights(classes.size());
  for (ClassId k = 0; k < classes.size(); ++k)
    weights[k] = total / (static_cast<double>(classes.size()) * classes.count(k));
  return weights;
}

std::vector<double> read_class_weights(const std::string& path, const ClassList& classes,
                                       const std::shared_ptr<MemoryBudget>& memory) {
  constexpr const char* kAdvice = "write a class, a blank and its weight (above 0) on each line";
  Input input(path, memory);
  std::vector<double> weights(classes.size(), 1.0);
  std::vector<std::uint64_t> seen_at(classes.size(), 0);
  bool any = false;
  for_each_line(input, memory, [&](std::uint64_t number, std::string_view line) {
    line = trimmed(line);
    if (line.empty()) return;
    // The last word is the weight: class names may contain blanks.
    const std::size_t blank = line.find_last_of(kBlanks);
    if (blank == std::string_view::npos)
      throw file_error(input.name(), number, fmt::format("only one word, {}", in_quotes(line)), kAdvice);
    const std::string_view name = trimmed(line.substr(0, blank)), token = line.substr(blank + 1);
    const double weight = parse_weight(input.name(), number, token, kAdvice);
    if (weight == 0)
      throw file_error(input.name(), number,
                       fmt::format("weight {} of class {}", in_quotes(token), in_quotes(name)),
                       "give a number above 0, or leave the rows of the class out by row weights of 0");
    const ClassId k = classes.find(name);
    if (k == kUnseenClass)
      throw file_error(input.name(), number,
                       fmt::format("class {} is not in the training data", in_quotes(name)),
                       "name only classes of the training data, spelled as there");
    if (seen_at[k] != 0)
      throw file_error(input.name(), number,
                       fmt::format("class {} is named here and in line {}", in_quotes(name), seen_at[k]),
                       "name each class once");
    seen_at[k] = number;
    weights[k] = weight;
    any = true;
  });
  if (!any) throw file_error(input.name(), 0, "contains no weights", kAdvice);
  return weights;
}

}  // namespace

void RowWeights::require_rows(std::uint64_t rows, const std::string& data, bool more) const {
  if (value.size() == rows || (more && value.size() > rows)) return;
  if (value.size() > rows)
    throw file_error(
        path, last_line,
        fmt::format("{}, but {} has only {}", counted(value.size(), "weight"), data, counted(rows, "row")),
        "give one weight for each row of the data file");
  throw file_error(path, last_line,
                   fmt::format("the file ends after {}, but {} has {}{}", counted(value.size(), "weight"),
                               data, more ? "at least " : "", counted(rows, "row")),
                   "give one weight for each row of the data file");
}

RowWeights read_row_weights(const std::string& path, const std::shared_ptr<MemoryBudget>& memory) {
  Input input(path, memory);
  char head[8];
  const std::size_t size = input.read(head, sizeof head);
  input.unread({head, size});
  return looks_like_npy({head, size}) ? read_array(input, memory) : read_text(input, memory);
}

std::string class_weight_file(const std::string& what) {
  return what == kBalanced ? "" : what;
}

void require_standard_input_once(const std::vector<std::string>& data,
                                 const std::vector<std::string>& weights) {
  const auto data_uses = std::count(data.begin(), data.end(), kStandardInput);
  const auto weight_uses = std::count(weights.begin(), weights.end(), kStandardInput);
  if (weight_uses > 0 && data_uses + weight_uses > 1)
    throw UserError("standard input can be read only once; name a file for the weights");
}

std::vector<double> make_class_weights(const std::string& what, const ClassList& classes,
                                       const std::shared_ptr<MemoryBudget>& memory) {
  if (what.empty()) return {};
  std::vector<double> weights =
      what == kBalanced ? balanced_weights(classes) : read_class_weights(what, classes, memory);
  if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 1; })) weights.clear();
  return weights;
}

}  // namespace truemax
