// Options, each described once: name, field with its default, range, words. Parser, --help, docs/options.md,
// the run log and the model file all read this table.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace truemax {

// An interval of allowed numbers; `open_low` excludes the lower end.
struct Range {
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  bool open_low = false;

  bool contains(double v) const { return v <= high && (open_low ? v > low : v >= low); }
  std::string text() const;
};

struct Option {
  std::string name;                             // without the dashes
  std::string value_name;                       // NUMBER, COUNT, FILE, SIZE, a|b|c, or empty for a switch
  std::string help;                             // one sentence or two, without the default
  std::string range;                            // in words; empty where any value of the kind will do
  std::string default_value;                    // as it would be typed
  std::function<void(std::string_view)> parse;  // throws UserError naming the option and its range
  std::function<nlohmann::json()> to_json;
  std::function<void(const nlohmann::json&)> from_json;  // throws UserError on a value out of range
  bool is_switch = false;
  bool is_list = false;  // may be typed more than once, each adds a value
};

// A list of options bound to the fields of one options struct.
class OptionTable {
 public:
  void number(std::string name, double* field, Range range, std::string help);
  // A number, or `word`, which stands for `value` outside the range.
  void number_or(std::string name, double* field, Range range, const std::string& word, double value,
                 std::string help);
  void count(std::string name, std::uint64_t* field, Range range, std::string help);
  // A count, or `word`, which stands for `value` outside the range.
  void count_or(std::string name, std::uint64_t* field, Range range, const std::string& word,
                std::uint64_t value, std::string help);
  void text(std::string name, std::string value_name, std::string* field, std::string help);
  // May be given more than once.
  void list(std::string name, std::string value_name, std::vector<std::string>* field, std::string help);
  void toggle(std::string name, bool* field, std::string help);  // --name, --no-name
  // Bytes: a number with an optional K, M, G or T (powers of 1024).
  void size(std::string name, std::uint64_t* field, std::string help);

  template <class Enum>
  void choice(const std::string& name, Enum* field,
              std::initializer_list<std::pair<const char*, Enum>> values, const std::string& help) {
    std::vector<std::string> names;
    std::vector<Enum> of;
    for (const auto& [n, v] : values) names.emplace_back(n), of.push_back(v);
    choice_by_index(
        name, names,
        [field, of] {
          for (std::size_t i = 0; i < of.size(); ++i)
            if (of[i] == *field) return i;
          return of.size();
        },
        [field, of](std::size_t i) { *field = of[i]; }, help);
  }
  // A choice kept as text, its values known only at run time (methods, draws).
  void named_choice(const std::string& name, std::string* field, const std::vector<std::string>& values,
                    const std::string& help);

  // The options of these names, as they stand in another table; they stay bound to its fields.
  void take(const OptionTable& from, std::initializer_list<std::string_view> names);

  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view name) const;
  nlohmann::ordered_json to_json() const;  // in the order of the table
  // Reads the options that are in `json`; names it does not know are an error, missing ones keep their value.
  void from_json(const nlohmann::json& json);

 private:
  void choice_by_index(const std::string& name, const std::vector<std::string>& names,
                       const std::function<std::size_t()>& get, const std::function<void(std::size_t)>& set,
                       const std::string& help);
  Option& add(std::string name, std::string value_name, std::string help);
  std::vector<Option> options_;
};

}  // namespace truemax
