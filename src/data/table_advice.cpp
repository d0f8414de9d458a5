// CSV and similar tables are not read, because they do not say which column is the label or what a column
// means. The error suggests a command that converts them to libsvm rows or fastText lines.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "data/input.hpp"
#include "data/number.hpp"
#include "data/sniff.hpp"

namespace truemax {
namespace {

std::vector<std::string_view> fields_of(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (line[i] != separator || quoted)) continue;
    fields.push_back(line.substr(begin, i - begin));
    begin = i + 1;
  }
  return fields;
}

bool is_number(std::string_view field) {
  while (!field.empty() && (field.front() == ' ' || field.front() == '"')) field.remove_prefix(1);
  while (!field.empty() && (field.back() == ' ' || field.back() == '"')) field.remove_suffix(1);
  if (field.empty()) return false;
  float value = 0;
  const std::string text(std::string(field) + "\n");  // parse_float needs a byte after the number
  const char* const end = parse_float(text.data(), value);
  return end == text.data() + field.size();
}

bool may_be_number(std::string_view field) {
  return is_number(field) || field.find_first_not_of(" \"") == std::string_view::npos;  // or empty
}

struct Table {
  char separator = ',';
  std::vector<std::vector<std::string_view>> rows;  // the first lines
  bool has_header = false, all_numbers = true;      // of the columns other than the label
  std::size_t label = 0;
};

bool names_label(std::string_view field) {
  std::string name;
  for (const char c : field)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name == "label" || name == "class" || name == "target" || name == "y" || name == "category" ||
         name == "labels" || name == "species";
}

// A table if all lines have the same number of columns, at least two.
std::optional<Table> as_table(std::string_view text, char separator) {
  constexpr std::size_t kLines = 50;
  Table table;
  table.separator = separator;
  while (!text.empty() && table.rows.size() < kLines) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length);
    const bool whole = length < text.size();
    text.remove_prefix(std::min(length + 1, text.size()));
    if (!whole && !table.rows.empty()) break;  // the last line may be incomplete
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    table.rows.push_back(fields_of(line, separator));
    if (table.rows.back().size() < 2 || table.rows.back().size() != table.rows.front().size())
      return std::nullopt;
  }
  if (table.rows.empty()) return std::nullopt;
  const auto& first = table.rows.front();
  const auto numbers = [](const auto& row) { return std::count_if(row.begin(), row.end(), is_number); };
  table.has_header = table.rows.size() > 1 && numbers(first) == 0;
  // A single line is a table only if it has several numbers: words with a comma are a sentence.
  if (table.rows.size() < 2 && (first.size() < 3 || numbers(first) < 2)) return std::nullopt;
  if (table.has_header)
    for (std::size_t c = 0; c < first.size(); ++c)
      if (names_label(first[c])) table.label = c;
  for (std::size_t r = table.has_header ? 1 : 0; r < table.rows.size(); ++r)
    for (std::size_t c = 0; c < first.size(); ++c)
      table.all_numbers &= c == table.label || may_be_number(table.rows[r][c]);
  // Sentences with a comma each are text: no line has a number, and the first names no label.
  const bool any_number =
      std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return numbers(row) > 0; });
  if (!any_number && std::none_of(first.begin(), first.end(), names_label)) return std::nullopt;
  return table;
}

// A path for use in a command; a placeholder if it would need quotes.
std::string in_command(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./-+").find(c) != std::string_view::npos;
  });
  return plain && !name.empty() && name.front() != '-' ? name : "FILE";
}

}  // namespace

std::optional<UserError> table_error(const std::string& name, std::string_view text) {
  std::optional<Table> found;
  for (const char separator : {',', '\t', ';'})
    if (!found) found = as_table(text, separator);
  if (!found) return std::nullopt;
  const Table& table = *found;
  const char* const kind = table.separator == ','    ? "CSV"
                           : table.separator == '\t' ? "TSV"
                                                     : "CSV with semicolons";
  const std::string delimiter = table.separator == ','    ? ""
                                : table.separator == '\t' ? ", delimiter='\\t'"
                                                          : ", delimiter=';'";
  const std::string file = in_command(name);
  const std::string rows =
      fmt::format("[r for r in csv.reader(sys.stdin{}) if r][{}:]", delimiter, table.has_header ? 1 : 0);
  const std::string script =
      table.all_numbers
          ? fmt::format(
                "import csv, sys; [print(r.pop({}).strip().replace(' ', '_'), *(f'{{i}}:{{v}}' for i, v in "
                "enumerate(r, 1) if "
                "float(v or 0))) for r in {}]",
                table.label, rows)
          : fmt::format(
                "import csv, sys; [print('__label__' + r.pop({}).strip().replace(' ', '_'), *r) for r in {}]",
                table.label, rows);
  const auto ends_in = [&](std::string_view ending) {
    return file.size() > ending.size() && file.substr(file.size() - ending.size()) == ending;
  };
  const char* const unpack = ends_in(".gz") ? "zcat" : ends_in(".zst") ? "zstdcat" : "cat";
  const char* const ending = table.all_numbers ? "libsvm" : "fasttext";
  return file_error(
      name, 1,
      fmt::format(
          "is {} ({}{}), which is not read: truemax reads xmlrepository, lshtc, libsvm, fasttext, idx "
          "and npy",
          kind, counted(table.rows.front().size(), "column"), table.has_header ? ", a header" : ""),
      fmt::format("with the label in column {} make {} of it by: {} {} | python3 -c \"{}\" > {}.{} (then add "
                  "--format {})",
                  table.label + 1, table.all_numbers ? "libsvm rows" : "fastText lines", unpack, file, script,
                  file == "FILE" ? "rows" : file, ending, ending));
}

}  // namespace truemax
